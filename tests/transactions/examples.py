"""Strategies of records and identities."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from bridge.storage.visibility import Identity
from bridge.transactions import ranges
from bridge.transactions.state import LAST_EPOCH, Ended, Status, TransactionRecord

INT63: Final = st.integers(0, 2**63 - 1)
EPOCHS: Final = st.integers(0, LAST_EPOCH)
TEXTS: Final = st.text(max_size=20)
TOPICS: Final = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
TOPIC_IDS: Final = st.from_regex(r"[0-9a-f]{0,32}", fullmatch=True)
INDEXES: Final = st.integers(0, 2**31 - 1)
RANGES: Final = st.lists(st.integers(0, 40) | INDEXES, min_size=1).map(ranges.of)
PARTITIONS: Final = st.dictionaries(st.tuples(TOPICS, TOPIC_IDS), RANGES, max_size=4)
GROUPS: Final = st.frozensets(TEXTS, max_size=3)

IDENTITIES: Final = st.builds(Identity, INT63, EPOCHS, INT63)


@st.composite
def transaction_records(draw: st.DrawFn) -> TransactionRecord:
    """Any that the state machine can give."""
    protocol, status = draw(st.sampled_from([(1, each) for each in Status] + [(2, Status.EMPTY), (2, Status.OPEN)]))
    counts = protocol == 1 and status is not Status.EMPTY
    return TransactionRecord(
        revision=draw(INT63),
        producer_id=draw(INT63),
        epoch=draw(EPOCHS),
        n=draw(st.integers(1, 2**63 - 1)) if counts else 0,
        status=status,
        protocol=protocol,
        timeout_ms=draw(INDEXES),
        begun_ms=draw(INT63),
        changed_ms=draw(INT63),
        ended=draw(st.none() | st.builds(Ended, INT63, EPOCHS, st.sampled_from(["c", "a", "i"]))),
        partitions=draw(PARTITIONS),
        firsts=draw(st.dictionaries(st.tuples(TOPIC_IDS, INDEXES), INT63, max_size=3)),
        groups=draw(GROUPS),
    )
