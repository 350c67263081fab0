"""One plain batch becomes what it becomes in several steps, or is left to them."""

import random

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import codec
from bridge.codec import NO_PRODUCER, TRANSACTIONAL, Record, Twin
from bridge.codec.compression import KafkaCodec
from bridge.errors import BatchTooLarge, CorruptBatch, InvalidRecord, KafkaError
from bridge.storage.append.plain import prepare_plain
from bridge.storage.append.preparation import Plan, prepare_records
from bridge.storage.visibility import Identity, Transaction
from tests.codec.conftest import codec as twins
from tests.codec.damage import mutated
from tests.codec.samples import record_lists
from tests.storage.append.batches import EVER, LIMIT, NOW, batch_of, codecs, numbered
from tests.support.effort import examples

twin = twins


@pytest.fixture(autouse=True)
def in_use(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each twin in turn is the one that the bridge uses."""
    for name in ("read_header", "encode_payload", "encode_plain"):
        monkeypatch.setattr(codec, name, getattr(twin, name))


def sound(batch: bytes | memoryview) -> memoryview:
    """With the right checksum."""
    return memoryview(bytes(batch[:17]) + crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big") + bytes(batch[21:]))


producers = st.just(NO_PRODUCER) | st.tuples(
    st.integers(0, EVER), st.integers(-1, (1 << 15) - 1), st.integers(-1, (1 << 31) - 1)
)


@given(
    record_lists(max_size=4), codecs, producers, st.randoms(use_true_random=False), st.booleans(),
    st.sampled_from([LIMIT, 100, 40]), st.sampled_from([EVER, 1000]), st.sampled_from([None, 0, 100, LIMIT]),
    st.booleans(), st.sampled_from([None, Transaction(3, Identity(7, 1, 2))]),
)  # fmt: skip
@settings(max_examples=examples(300), deadline=None)
def test_a_plain_batch_becomes_what_any_other_way_makes_of_it(
    records: list[Record], compression: KafkaCodec, producer: tuple[int, int, int], chance: random.Random,
    damaged: bool, limit: int, bound: int, max_batch: int | None, transactional: bool, transaction: Transaction | None,
) -> None:  # fmt: skip
    """Whatever is sent: it is prepared as it is in several steps, or left to them."""
    batch = batch_of(records, compression, producer)
    if transactional:
        batch = sound(b"".join((batch[:22], bytes((batch[22] | TRANSACTIONAL,)), batch[23:])))
    if damaged:
        batch = memoryview(mutated(bytes(batch), chance))
        if len(batch) > 61 and chance.random() < 0.8:  # with the right checksum, or there is nothing else to see
            batch = sound(batch)
    plan = Plan(limit, before_max_ms=bound, after_max_ms=bound, max_batch_bytes=max_batch)
    entry = prepare_plain(batch, plan, NOW, transaction)
    try:
        usual = prepare_records(batch, plan, NOW, allow_zstd=True, transaction=transaction)
    except (CorruptBatch, InvalidRecord, BatchTooLarge, KafkaError):
        assert entry is None
        return
    whole = len(usual) == 1 and (max_batch is None or len(batch) <= max_batch)
    if whole and compression == KafkaCodec.NONE and not batch[22] & 7 and usual[0].record_count == len(records):
        assert [entry] == usual
    else:
        assert entry is None or [entry] == usual


@pytest.mark.parametrize(
    "plan",
    [
        Plan(LIMIT, entry_format="kafka"),
        Plan(LIMIT, codec=KafkaCodec.ZSTD),
        Plan(LIMIT, requires_keys=True),
        Plan(LIMIT, max_batch_bytes=0),
    ],
)
def test_where_there_is_more_to_do_no_batch_is_plain(plan: Plan) -> None:
    assert prepare_plain(batch_of(numbered(3)), Plan(LIMIT), NOW) is not None
    assert prepare_plain(batch_of(numbered(3)), Plan(LIMIT, codec=KafkaCodec.NONE), NOW) is not None
    assert prepare_plain(batch_of(numbered(3)), plan, NOW) is None


def test_two_batches_or_too_many_records_are_not_plain() -> None:
    one = batch_of(numbered(1))
    assert prepare_plain(memoryview(bytes(one) * 2), Plan(LIMIT), NOW) is None
    assert prepare_plain(memoryview(b""), Plan(LIMIT), NOW) is None
    assert prepare_plain(batch_of(numbered(20_001, 1)), Plan(LIMIT), NOW) is None
