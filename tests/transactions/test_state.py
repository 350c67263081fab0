"""Each request in each state of a transactional id: what is answered, what is stored.

The tables are Kafka's behaviour as documented in KIP-98, 360, 588 and 890, with what differs here: a new epoch begins
in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.state import (
    LAST_EPOCH,
    MOST_GROUPS,
    NEEDS_PRODUCER_ID,
    Change,
    Ended,
    Partition,
    Status,
    TransactionRecord,
    add_group,
    add_partitions,
    end,
    fence,
    init_producer_id,
    time_out,
)

ID: Final = 1000
EPOCH: Final = 7
BEGUN: Final = 10_000
TIMEOUT: Final = 60_000
NOW: Final = 20_000
TOPIC: Final = ("orders", "0a")
MANY: Final = 10_000


def in_state(name: str) -> TransactionRecord | None:
    """`open2/c`: opened by protocol 2 in an epoch that began with a commit."""
    status, _, how = name.partition("/")
    if status == "none":
        return None
    kind = Status({"empty": "e", "open1": "o", "open2": "o", "committed": "c", "aborted": "a"}[status])
    is_open = kind is Status.OPEN
    of_protocol_1 = status in ("open1", "committed", "aborted")
    return TransactionRecord(
        revision=40,
        producer_id=ID,
        epoch=EPOCH,
        n=3 if of_protocol_1 else 0,
        status=kind,
        protocol=1 if of_protocol_1 else 2,
        timeout_ms=TIMEOUT,
        begun_ms=BEGUN,
        changed_ms=BEGUN + 1,
        ended=Ended(ID, EPOCH - 1, how) if how else None,
        partitions={TOPIC: ((0, 1),)} if is_open else {},
        firsts={("0a", 1): 55} if is_open else {},
        groups=frozenset({"copiers"}) if is_open else frozenset(),
    )


KINDS: Final = ("empty", "open1", "open2", "committed", "aborted")
STATES: Final = ["none", *(f"{kind}{how}" for kind, how in product(KINDS, ("", "/i", "/c", "/a")))]
NAMED: Final = {
    "nothing": (-1, -1),
    "current": (ID, EPOCH),
    "before": (ID, EPOCH - 1),  # what `ended` names where there is one
    "older": (ID, EPOCH - 2),
    "newer": (ID, EPOCH + 1),
    "other id": (ID + 1, EPOCH),
}


def next_epoch(record: TransactionRecord, ended: Ended | None, aborts: bool, timeout_ms: int = TIMEOUT) -> Change:
    """What begins the next epoch, whoever does."""
    following = TransactionRecord(
        revision=record.revision + 1,
        producer_id=ID,
        epoch=record.epoch + 1,
        n=0,
        status=Status.EMPTY,
        protocol=record.protocol,
        timeout_ms=timeout_ms,
        begun_ms=record.begun_ms,
        changed_ms=NOW,
        ended=ended,
        partitions={},
        firsts={},
        groups=frozenset(),
    )
    return Change(ErrorCode.NONE, following, record.identity if aborts else None, ID, record.epoch + 1)


def rows(table: str) -> Iterator[tuple[str, ...]]:
    """The cells of a table's lines."""
    for line in table.strip().splitlines():
        yield tuple(cell.strip() for cell in line.split("|"))


# ---- InitProducerId --------------------------------------------------------------------------------------------------

INIT: Final = """
    none | nothing  | first
    none | current  | first
    none | other id | first
    any  | nothing  | next epoch
    any  | current  | next epoch, named
    any  | before   | PRODUCER_FENCED
    any  | older    | PRODUCER_FENCED
    any  | newer    | PRODUCER_FENCED
    any  | other id | PRODUCER_FENCED
    any/ | before   | the current ones
"""


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("state", STATES)
def test_init_producer_id(state: str, named: str) -> None:
    record = in_state(state)
    # a later line is of fewer states
    expected = "first"
    for kind, of, then in rows(INIT):
        if record is not None and of == named and (kind == "any" or (kind == "any/" and "/" in state)):
            expected = then
    change = init_producer_id(record, *NAMED[named], 30_000, 2000, NOW)
    assert isinstance(change, Change)
    if record is None:
        assert change.record == TransactionRecord(
            1, 2000, 0, 0, Status.EMPTY, 1, 30_000, NOW, NOW, None, {}, {}, frozenset()
        )
        assert change == Change(ErrorCode.NONE, change.record, None, 2000, 0)
        return
    is_open = record.status is Status.OPEN
    assert (
        change
        == {
            "next epoch": next_epoch(record, None, is_open, 30_000),
            "next epoch, named": next_epoch(record, Ended(ID, EPOCH, "i"), is_open, 30_000),
            "the current ones": Change(producer_id=ID, epoch=EPOCH),
            "PRODUCER_FENCED": Change(ErrorCode.PRODUCER_FENCED),
        }[expected]
    )


def test_an_id_that_is_new_needs_a_producer_id() -> None:
    assert init_producer_id(None, -1, -1, TIMEOUT, None, NOW) is NEEDS_PRODUCER_ID


@pytest.mark.parametrize("named", [(ID, -1), (-1, EPOCH)])
@pytest.mark.parametrize("state", ["none", "open1"])
def test_half_an_epoch_is_no_request(state: str, named: tuple[int, int]) -> None:
    assert init_producer_id(in_state(state), *named, TIMEOUT, 2000, NOW) == Change(ErrorCode.INVALID_REQUEST)


# ---- AddPartitionsToTxn and AddOffsetsToTxn --------------------------------------------------------------------------

#        state      | by protocol 1         | by protocol 2
ADD: Final = """
    empty           | begins, n = 1         | begins, n = 0
    open1           | adds                  | INVALID_TXN_STATE
    open2           | INVALID_TXN_STATE     | adds
    committed       | begins, n = 4         | INVALID_TXN_STATE
    aborted         | begins, n = 4         | INVALID_TXN_STATE
"""


def expected_of_an_addition(state: str, named: str, protocol: int) -> str:
    if state == "none" or named in ("other id", "nothing"):
        return "INVALID_PRODUCER_ID_MAPPING"
    if named != "current":
        return "PRODUCER_FENCED"
    return {cells[0]: cells[protocol] for cells in rows(ADD)}[state.partition("/")[0]]


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("state", STATES)
def test_additions(state: str, named: str, protocol: int) -> None:
    record = in_state(state)
    expected = expected_of_an_addition(state, named, protocol)
    partitions = [Partition("orders", "0a", 2), Partition("orders", "0b", 2)]
    firsts = {("0a", 2): 90, ("0a", 9): 99}
    added = add_partitions(record, *NAMED[named], partitions, firsts, protocol, MANY, NOW)
    joined = add_group(record, *NAMED[named], "readers", protocol, NOW)
    if expected.isupper():
        assert added == joined == Change(ErrorCode[expected])
        return
    assert record is not None
    common = replace(record, revision=41, changed_ms=NOW)
    if expected == "adds":
        of_both = replace(
            common, partitions={TOPIC: ((0, 2),), ("orders", "0b"): ((2, 2),)}, firsts={("0a", 1): 55, ("0a", 2): 90}
        )
        assert added == Change(record=of_both, producer_id=ID, epoch=EPOCH)
        with_group = replace(common, groups=frozenset({"copiers", "readers"}))
    else:
        begun = replace(
            common, n=int(expected[-1]), status=Status.OPEN, protocol=protocol, begun_ms=NOW,
            partitions={}, firsts={}, groups=frozenset(),
        )  # fmt: skip
        partitions_of_it = {TOPIC: ((2, 2),), ("orders", "0b"): ((2, 2),)}
        assert added.record == replace(begun, partitions=partitions_of_it, firsts={("0a", 2): 90})
        with_group = replace(begun, groups=frozenset({"readers"}))
    assert joined == Change(record=with_group, producer_id=ID, epoch=EPOCH)


@pytest.mark.parametrize(("state", "protocol"), [("open1", 1), ("open2", 2), ("open2/c", 2)])
def test_what_is_there_already_is_not_stored_again(state: str, protocol: int) -> None:
    record = in_state(state)
    there = [Partition("orders", "0a", 0), Partition("orders", "0a", 1)]
    assert add_partitions(record, ID, EPOCH, there, {("0a", 0): 1}, protocol, 2, NOW) == Change()
    assert add_partitions(record, ID, EPOCH, [], {}, protocol, 2, NOW) == Change()
    assert add_group(record, ID, EPOCH, "copiers", protocol, NOW) == Change()


def test_what_was_there_keeps_its_first_offset() -> None:
    record = in_state("open1")
    partitions = [Partition("orders", "0a", 1), Partition("orders", "0a", 2)]
    change = add_partitions(record, ID, EPOCH, partitions, {("0a", 1): 70, ("0a", 2): 71}, 1, MANY, NOW)
    assert change.record is not None
    assert change.record.firsts == {("0a", 1): 55, ("0a", 2): 71}


def test_a_transaction_of_nothing_is_open() -> None:
    change = add_partitions(in_state("empty"), ID, EPOCH, [], {}, 1, MANY, NOW)
    assert change.record is not None
    assert change.record.status is Status.OPEN


@pytest.mark.parametrize("state", ["empty", "open2"])
def test_a_transaction_has_a_largest_number_of_partitions(state: str) -> None:
    record = in_state(state)
    there = 0 if state == "empty" else 2
    partitions = [Partition("events", "0c", index) for index in range(8)] * 2
    change = add_partitions(record, ID, EPOCH, partitions, {}, 2, 8 + there, NOW)
    assert change.record is not None
    assert change.record.partitions["events", "0c"] == ((0, 7),)
    refused = add_partitions(record, ID, EPOCH, partitions, {}, 2, 7 + there, NOW)
    assert refused == Change(ErrorCode.INVALID_REQUEST)


def test_a_topic_that_was_made_anew_is_another() -> None:
    record = in_state("open1")
    assert record is not None
    assert record.names("0a", 1)
    assert not record.names("0a", 2)
    assert not record.names("0b", 1)


# ---- EndTxn ----------------------------------------------------------------------------------------------------------

#        state      | commit                | abort
END_BY_1: Final = """
    empty           | INVALID_TXN_STATE     | INVALID_TXN_STATE
    open1           | c                     | a
    open2           | INVALID_TXN_STATE     | INVALID_TXN_STATE
    committed       | NONE                  | INVALID_TXN_STATE
    aborted         | INVALID_TXN_STATE     | NONE
"""


@pytest.mark.parametrize("how", ["c", "a"])
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("state", STATES)
def test_end_by_protocol_1(state: str, named: str, how: str) -> None:
    record = in_state(state)
    if state == "none" or named in ("other id", "nothing"):
        expected = "INVALID_PRODUCER_ID_MAPPING"
    elif named != "current":
        expected = "PRODUCER_FENCED"
    else:
        expected = {cells[0]: cells["?ca".index(how)] for cells in rows(END_BY_1)}[state.partition("/")[0]]
    change = end(record, *NAMED[named], how == "c", 1, 2000, NOW)
    if len(expected) > 1:
        assert change == Change(ErrorCode[expected])
        return
    assert record is not None
    ended = replace(
        record, revision=41, status=Status(how), changed_ms=NOW, partitions={}, firsts={}, groups=frozenset()
    )
    assert change == Change(ErrorCode.NONE, ended, record.identity if how == "a" else None, ID, EPOCH)


#        state      | current, commit       | current, abort    | before, commit        | before, abort
END_BY_2: Final = """
    open            | next epoch            | next epoch, abort | PRODUCER_FENCED       | PRODUCER_FENCED
    empty           | INVALID_TXN_STATE     | next epoch        | PRODUCER_FENCED       | PRODUCER_FENCED
    empty/i         | INVALID_TXN_STATE     | next epoch        | PRODUCER_FENCED       | PRODUCER_FENCED
    empty/c         | INVALID_TXN_STATE     | next epoch        | the current ones      | INVALID_TXN_STATE
    empty/a         | INVALID_TXN_STATE     | next epoch        | INVALID_TXN_STATE     | the current ones
"""


@pytest.mark.parametrize("how", ["c", "a"])
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("state", STATES)
def test_end_by_protocol_2(state: str, named: str, how: str) -> None:
    record = in_state(state)
    kind, _, _ = state.partition("/")
    # what protocol 1 ended counts as empty, and nothing is known of how the epoch before ended
    row = "open" if kind in ("open1", "open2") else "empty" if kind in ("committed", "aborted") else state
    if state == "none" or named in ("other id", "nothing"):
        expected = "INVALID_PRODUCER_ID_MAPPING"
    elif named in ("older", "newer"):
        expected = "PRODUCER_FENCED"
    else:
        column = {("current", "c"): 1, ("current", "a"): 2, ("before", "c"): 3, ("before", "a"): 4}[named, how]
        expected = {cells[0]: cells[column] for cells in rows(END_BY_2)}[row]
    change = end(record, *NAMED[named], how == "c", 2, 2000, NOW)
    if expected == "the current ones":
        assert change == Change(producer_id=ID, epoch=EPOCH)
    elif expected.startswith("next epoch"):
        assert record is not None
        assert change == next_epoch(record, Ended(ID, EPOCH, how), expected.endswith("abort"))
    else:
        assert change == Change(ErrorCode[expected])


# ---- what nobody asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES[1:])
def test_time_out(state: str) -> None:
    record = in_state(state)
    assert record is not None
    if record.status is not Status.OPEN:
        assert time_out(record, BEGUN + 10 * TIMEOUT) is None
        assert fence(record, NOW) == Change()
        return
    assert time_out(record, BEGUN + TIMEOUT - 1) is None
    ended = Ended(ID, EPOCH, "a")
    assert fence(record, NOW) == next_epoch(record, ended, aborts=True)
    assert time_out(replace(record, begun_ms=NOW - TIMEOUT), NOW) == next_epoch(
        replace(record, begun_ms=NOW - TIMEOUT), ended, aborts=True
    )


def after_a_time_out(state: str) -> TransactionRecord:
    record = in_state(state)
    assert record is not None
    change = time_out(record, BEGUN + TIMEOUT)
    assert isinstance(change, Change)
    assert change.record is not None
    return change.record


def test_a_client_of_protocol_2_goes_on_after_a_time_out() -> None:
    record = after_a_time_out("open2")
    assert end(record, ID, EPOCH, False, 2, None, NOW) == Change(producer_id=ID, epoch=EPOCH + 1)
    assert end(record, ID, EPOCH, True, 2, None, NOW) == Change(ErrorCode.INVALID_TXN_STATE)
    assert init_producer_id(record, ID, EPOCH, TIMEOUT, None, NOW) == Change(producer_id=ID, epoch=EPOCH + 1)


def test_a_client_of_protocol_1_is_fenced_after_a_time_out() -> None:
    record = after_a_time_out("open1")
    assert end(record, ID, EPOCH, False, 1, None, NOW) == Change(ErrorCode.PRODUCER_FENCED)
    # which goes on with the epoch that has begun
    assert init_producer_id(record, ID, EPOCH, TIMEOUT, None, NOW) == Change(producer_id=ID, epoch=EPOCH + 1)


# ---- the last epoch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["empty", "open1", "open2", "committed"])
@pytest.mark.parametrize("named", ["nothing", "current"])
def test_init_producer_id_in_the_last_epoch(state: str, named: str) -> None:
    record = at(state, LAST_EPOCH)
    asked = (-1, -1) if named == "nothing" else (ID, LAST_EPOCH)
    assert init_producer_id(record, *asked, TIMEOUT, None, NOW) is NEEDS_PRODUCER_ID
    change = init_producer_id(record, *asked, TIMEOUT, 2000, NOW)
    ended = None if named == "nothing" else Ended(ID, LAST_EPOCH, "i")
    rotated(change, record, ended, aborts=record.status is Status.OPEN)


@pytest.mark.parametrize("state", ["empty", "open1", "open2", "committed"])
@pytest.mark.parametrize("commit", [True, False])
def test_end_in_the_last_epoch(state: str, commit: bool) -> None:
    record = at(state, LAST_EPOCH)
    is_open = record.status is Status.OPEN
    if commit and not is_open:
        assert end(record, ID, LAST_EPOCH, commit, 2, None, NOW) == Change(ErrorCode.INVALID_TXN_STATE)
        return
    assert end(record, ID, LAST_EPOCH, commit, 2, None, NOW) is NEEDS_PRODUCER_ID
    change = end(record, ID, LAST_EPOCH, commit, 2, 2000, NOW)
    following = rotated(change, record, Ended(ID, LAST_EPOCH, "c" if commit else "a"), aborts=is_open and not commit)
    # the repetition names the old producer id
    assert end(following, ID, LAST_EPOCH, commit, 2, None, NOW) == Change(producer_id=2000, epoch=0)
    assert end(following, ID, LAST_EPOCH, not commit, 2, None, NOW) == Change(ErrorCode.INVALID_TXN_STATE)
    assert init_producer_id(following, ID, LAST_EPOCH, TIMEOUT, None, NOW) == Change(producer_id=2000, epoch=0)
    assert add_group(following, ID, LAST_EPOCH, "g", 2, NOW) == Change(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@pytest.mark.parametrize("state", ["open1", "open2"])
def test_a_time_out_in_the_last_epoch(state: str) -> None:
    record = at(state, LAST_EPOCH)
    assert time_out(record, BEGUN + TIMEOUT) is NEEDS_PRODUCER_ID
    assert time_out(record, BEGUN, 2000) is None
    assert fence(record, NOW) is NEEDS_PRODUCER_ID
    ended = Ended(ID, LAST_EPOCH, "a")
    rotated(fence(record, NOW, 2000), record, ended, aborts=True)


def test_protocol_1_needs_no_epoch_for_its_end() -> None:
    record = at("open1", LAST_EPOCH)
    change = end(record, ID, LAST_EPOCH, True, 1, None, NOW)
    assert isinstance(change, Change)
    assert change.record is not None
    assert change.record.identity == Identity(ID, LAST_EPOCH, 3)


def test_the_epoch_before_the_last_needs_no_producer_id() -> None:
    change = init_producer_id(at("empty", LAST_EPOCH - 1), -1, -1, TIMEOUT, None, NOW)
    assert isinstance(change, Change)
    assert (change.producer_id, change.epoch) == (ID, LAST_EPOCH)


def at(state: str, epoch: int) -> TransactionRecord:
    record = in_state(state)
    assert record is not None
    return replace(record, epoch=epoch)


def rotated(change: object, record: TransactionRecord, ended: Ended | None, aborts: bool) -> TransactionRecord:
    assert isinstance(change, Change)
    assert change.record is not None
    assert change == Change(ErrorCode.NONE, change.record, record.identity if aborts else None, 2000, 0)
    assert (change.record.producer_id, change.record.epoch, change.record.n) == (2000, 0, 0)
    assert (change.record.status, change.record.ended) == (Status.EMPTY, ended)
    assert change.record.revision == record.revision + 1
    return change.record


# ---- a client that changes the protocol ------------------------------------------------------------------------------


def test_what_protocol_1_began_protocol_2_may_end() -> None:
    change = end(in_state("open1"), ID, EPOCH, False, 2, None, NOW)
    assert isinstance(change, Change)
    assert change.aborted == Identity(ID, EPOCH, 3)
    assert change.epoch == EPOCH + 1
    begun = add_group(change.record, ID, EPOCH + 1, "g", 2, NOW).record
    assert begun is not None
    assert begun.identity == Identity(ID, EPOCH + 1, 0)


def test_after_an_end_by_protocol_2_a_client_may_go_back() -> None:
    change = end(in_state("open2"), ID, EPOCH, True, 2, None, NOW)
    assert isinstance(change, Change)
    begun = add_group(change.record, ID, EPOCH + 1, "g", 1, NOW).record
    assert begun is not None
    assert begun.identity == Identity(ID, EPOCH + 1, 1)


# ---- whatever is asked -----------------------------------------------------------------------------------------------

REQUESTS: Final = st.tuples(
    st.sampled_from(["init", "partitions", "group", "end", "time out"]),
    st.sampled_from(["nothing", "current", "current", "current", "ended", "older", "newer"]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.integers(0, 3),
)


def asked_of(record: TransactionRecord, named: str) -> tuple[int, int]:
    if named == "ended":
        return record.ended[:2] if record.ended else (ID, 0)
    return {
        "nothing": (-1, -1),
        "current": (record.producer_id, record.epoch),
        "older": (record.producer_id, record.epoch - 1),
        "newer": (record.producer_id, record.epoch + 1),
    }[named]


@given(first=st.sampled_from([0, 1, LAST_EPOCH - 2, LAST_EPOCH]), requests=st.lists(REQUESTS, max_size=30))
def test_identities_only_grow_and_are_decided_once(first: int, requests: list[tuple[str, str, int, bool, int]]) -> None:
    record = at("empty", first)
    new_id, decided = ID, {}
    for now, (api, named, protocol, commit, number) in enumerate(requests):
        asked, new_id = asked_of(record, named), new_id + 1
        change: object
        if api == "init":
            change = init_producer_id(record, *asked, TIMEOUT, new_id, now)
        elif api == "partitions":
            change = add_partitions(record, *asked, [Partition(*TOPIC, number)], {}, protocol, 3, now)
        elif api == "group":
            change = add_group(record, *asked, str(number), protocol, now)
        elif api == "end":
            change = end(record, *asked, commit, protocol, new_id, now)
        else:
            change = time_out(record, BEGUN + TIMEOUT, new_id) or Change()
        assert isinstance(change, Change)
        after = change.record
        if after is None:
            assert change.aborted is None
            continue
        assert change.error == ErrorCode.NONE
        assert after.revision == record.revision + 1
        assert after.identity >= record.identity
        if after.status is not Status.OPEN:
            assert not (after.partitions or after.firsts or after.groups)
        if record.status is Status.OPEN:
            ends = after.status is not Status.OPEN
            assert ends or after.identity == record.identity
            if ends:  # once, and aborted unless a client said otherwise
                assert record.identity not in decided
                decided[record.identity] = change.aborted is None
                assert change.aborted is not None or (api == "end" and commit)
        else:
            assert change.aborted is None
        record = after


# ---- what no client in order sends -----------------------------------------------------------------------------------

EPOCHS: Final = (-32_768, -2, -1, 0, LAST_EPOCH, LAST_EPOCH + 1)
"""All that 16 bits can say, at its ends."""


@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize("own", [0, EPOCH, LAST_EPOCH])
@pytest.mark.parametrize("state", STATES)
def test_epochs_at_the_ends_of_their_range_change_nothing_but_their_own(state: str, own: int, epoch: int) -> None:
    record = in_state(state) if state == "none" else at(state.partition("/")[0], own)
    named = (ID, epoch)
    changes = [
        init_producer_id(record, *named, TIMEOUT, 2000, NOW),
        *(add_partitions(record, *named, [Partition(*TOPIC, 5)], {}, protocol, MANY, NOW) for protocol in (1, 2)),
        *(add_group(record, *named, "g", protocol, NOW) for protocol in (1, 2)),
        *(end(record, *named, commit, protocol, 2000, NOW) for commit in (True, False) for protocol in (1, 2)),
    ]
    for change in changes:
        assert isinstance(change, Change)
        if change.record is not None:
            assert records.decode(records.encode(change.record)) == change.record
            assert 0 <= change.record.epoch <= LAST_EPOCH
        if record is not None and epoch != own:
            assert change.record is None
            assert change.error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_REQUEST)


def test_a_transaction_has_no_more_partitions_and_groups_than_it_may() -> None:
    record = at("empty", EPOCH)
    many = [Partition(*TOPIC, 2 * index) for index in range(100_000)]
    assert add_partitions(record, ID, EPOCH, many, {}, 1, MANY, NOW) == Change(ErrorCode.INVALID_REQUEST)
    added = add_partitions(record, ID, EPOCH, many[:MANY], {}, 1, MANY, NOW).record
    assert added is not None
    assert add_partitions(added, ID, EPOCH, many[:MANY], {}, 1, MANY, NOW) == Change()
    assert add_partitions(added, ID, EPOCH, [many[-1]], {}, 1, MANY, NOW) == Change(ErrorCode.INVALID_REQUEST)
    record = at("empty", EPOCH)
    for number in range(MOST_GROUPS):
        joined = add_group(record, ID, EPOCH, f"g{number}", 1, NOW).record
        assert joined is not None
        record = joined
    assert add_group(record, ID, EPOCH, "another", 1, NOW) == Change(ErrorCode.INVALID_REQUEST)
    assert add_group(record, ID, EPOCH, "g7", 1, NOW) == Change()
