"""OffsetCommit, OffsetFetch and OffsetDelete: where each version puts offsets and errors."""

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.apis import offset_commit, offset_delete, offset_fetch
from bridge.errors import KafkaError, Unanswered
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset, decode_offset, encode_offset
from bridge.groups.store.visible import TopicPartition
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.responses import DeferredResponse
from bridge.requests.session import Session
from bridge.runtime.threads import WorkerThreads
from tests.apis.wire import answer_of

SESSION = Session(1, "peer", "listener")
ELSEWHERE = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
LIBRDKAFKA = ("librdkafka", "2.16.0")
HELD = {("t", 1): StoredOffset(5, 2, "m"), ("t", 0): StoredOffset(4), ("a", 3): StoredOffset(9)}


class Offsets:
    """Answers from a table; `refusal` for everything."""

    def __init__(self, refusal: ErrorCode | None = None) -> None:
        self.refusal = refusal
        self.committed: list[tuple[str, Committer, Mapping[TopicPartition, StoredOffset]]] = []

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise KafkaError(self.refusal)

    async def fetch(self, group_id: str, *, require_stable: bool) -> dict[TopicPartition, StoredOffset | None]:
        self._refuse()
        if group_id == "open":
            return {("o", 0): None if require_stable else StoredOffset(1)}
        return {**HELD} if group_id == "g" else {}

    async def commit(self, group_id: str, member: Committer, wanted: Mapping[TopicPartition, StoredOffset]) -> Any:
        self._refuse()
        self.committed.append((group_id, member, wanted))
        done: asyncio.Future[dict[TopicPartition, ErrorCode]] = asyncio.get_running_loop().create_future()
        done.set_result({where: ErrorCode.NONE if where[0] == "t" else ErrorCode(3) for where in wanted})
        return done

    async def delete(self, group_id: str, unwanted: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        self._refuse()
        return {where: ErrorCode.NONE if where[0] == "t" else ErrorCode(86) for where in unwanted}


def broker(refusal: ErrorCode | None = None) -> Broker:
    return cast(Broker, SimpleNamespace(offsets=Offsets(refusal), cpu_thread=WorkerThreads(1)))


def asked(*partitions: int) -> list[offset_fetch.Topic]:
    return [offset_fetch.Topic(name="t", partition_indexes=list(partitions))]


def told(topics: list[offset_fetch.ResponseTopic]) -> list[tuple[Any, ...]]:
    return [
        (
            topic.name,
            one.partition_index,
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata,
            one.error_code,
        )
        for topic in topics
        for one in topic.partitions
    ]


async def test_what_is_asked_by_name_is_answered_even_if_there_is_none() -> None:
    answer = await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=asked(1, 7)), broker(), SESSION)
    assert told(answer.topics) == [("t", 1, 5, 2, "m", 0), ("t", 7, -1, -1, "", 0)]
    answer = await offset_fetch.handle(offset_fetch.Request(group_id="unknown", topics=asked(1)), broker(), SESSION)
    assert (told(answer.topics), answer.error_code) == ([("t", 1, -1, -1, "", 0)], 0)


async def test_no_topics_are_all_topics() -> None:
    answer = await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=None), broker(), SESSION)
    assert told(answer.topics) == [("a", 3, 9, -1, "", 0), ("t", 0, 4, -1, "", 0), ("t", 1, 5, 2, "m", 0)]
    answer = await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=[]), broker(), SESSION)
    assert told(answer.topics) == []


async def test_several_groups_are_answered_each() -> None:
    groups = [
        offset_fetch.RequestGroup(group_id="g", topics=asked(0)),
        offset_fetch.RequestGroup(group_id="unknown", topics=None),
    ]
    answer = await offset_fetch.handle(offset_fetch.Request(groups=groups, require_stable=True), broker(), SESSION)
    assert [(one.group_id, told(one.topics), one.error_code) for one in answer.groups] == [
        ("g", [("t", 0, 4, -1, "", 0)], 0),
        ("unknown", [], 0),
    ]


@pytest.mark.parametrize("named", [True, False])
async def test_what_a_transaction_may_still_change_is_told_only_to_who_takes_it(named: bool) -> None:
    topics = [offset_fetch.Topic(name="o", partition_indexes=[0])] if named else None
    for stable, answer in ((False, ("o", 0, 1, -1, "", 0)), (True, ("o", 0, -1, -1, "", 88))):
        one = offset_fetch.Request(group_id="open", topics=topics, require_stable=stable)
        groups = [offset_fetch.RequestGroup(group_id="open", topics=topics)]
        several = offset_fetch.Request(groups=groups, require_stable=stable)
        assert told((await offset_fetch.handle(one, broker(), SESSION)).topics) == [answer]
        assert told((await offset_fetch.handle(several, broker(), SESSION)).groups[0].topics) == [answer]


async def test_an_error_stands_where_each_version_looks_for_it() -> None:
    loading = broker(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    single = await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=asked(0)), loading, SESSION)
    assert (single.error_code, told(single.topics)) == (14, [("t", 0, -1, -1, "", 14)])
    every = await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=None), loading, SESSION)
    assert (every.error_code, every.topics) == (14, [])
    groups = [offset_fetch.RequestGroup(group_id="g", topics=asked(0))]
    several = await offset_fetch.handle(offset_fetch.Request(groups=groups), loading, SESSION)
    assert [(one.error_code, one.topics) for one in several.groups] == [(14, [])]


def commit(**fields: Any) -> offset_commit.Request:
    topics = [
        offset_commit.RequestTopic(
            name=name, partitions=[offset_commit.RequestPartition(partition_index=1, committed_offset=5)]
        )
        for name in ("t", "u")
    ]
    return offset_commit.Request(group_id="g", topics=topics, **fields)


async def fetched(code: ErrorCode, software: tuple[str, str], version: int) -> offset_fetch.Response:
    """An OffsetFetch that is refused."""
    session = Session(1, "peer", "listener", client_software=software, api_version=version)
    if version < 8:
        return await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=[]), broker(code), session)
    groups = [offset_fetch.RequestGroup(group_id="g", topics=[])]
    return await offset_fetch.handle(offset_fetch.Request(groups=groups), broker(code), session)


@pytest.mark.parametrize("version", [1, 7, 9])
@pytest.mark.parametrize("code", ELSEWHERE)
async def test_librdkafka_is_told_by_its_connection_alone_that_the_coordinator_is_elsewhere(
    code: ErrorCode, version: int
) -> None:
    with pytest.raises(Unanswered) as caught:
        await fetched(code, LIBRDKAFKA, version)
    assert caught.value.code == code


@pytest.mark.parametrize("version", [7, 9])
async def test_all_other_clients_and_errors_are_answered(version: int) -> None:
    """Java's consumers before 3.9 know NOT_COORDINATOR alone (KAFKA-17279)."""
    for code, software in [(one, ("apache-kafka-java", "3.8.1")) for one in ELSEWHERE] + [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, LIBRDKAFKA),
        (ErrorCode.UNKNOWN_MEMBER_ID, LIBRDKAFKA),
    ]:
        answer = await fetched(code, software, version)
        told = ErrorCode.NOT_COORDINATOR if code in ELSEWHERE else code
        assert (answer.groups[0] if answer.groups else answer).error_code == told


async def test_a_commit_is_answered_later_for_each_partition() -> None:
    where = broker()
    answer = await offset_commit.handle(commit(member_id="m", generation_id_or_member_epoch=3), where, SESSION)
    assert isinstance(answer, DeferredResponse)
    errors = [(topic.name, one.error_code) for topic in (await answer_of(answer)).topics for one in topic.partitions]
    assert errors == [("t", 0), ("u", 3)]
    _, member, wanted = cast(Offsets, where.offsets).committed[0]
    assert member == Committer("m", None, 3, SESSION.api_version)
    assert wanted["t", 1] == StoredOffset(5)


async def test_a_refused_commit_is_refused_for_each_partition() -> None:
    answer = await offset_commit.handle(commit(), broker(ErrorCode.ILLEGAL_GENERATION), SESSION)
    assert isinstance(answer, offset_commit.Response)
    assert [one.error_code for topic in answer.topics for one in topic.partitions] == [22, 22]


async def test_old_clients_choose_how_long_an_offset_is_kept() -> None:
    where = broker()
    answer = await offset_commit.handle(commit(retention_time_ms=1000), where, SESSION)
    assert isinstance(answer, DeferredResponse)
    await answer_of(answer)
    assert cast(Offsets, where.offsets).committed[0][2]["t", 1].expires_at_ms > 1000


async def test_an_offset_that_is_kept_as_long_as_can_be_said_is_read_as_it_was_stored() -> None:
    where = broker()
    answer = await offset_commit.handle(commit(retention_time_ms=2**63 - 1), where, SESSION)
    assert isinstance(answer, DeferredResponse)
    await answer_of(answer)
    committed = cast(Offsets, where.offsets).committed[0][2]["t", 1]
    assert decode_offset(encode_offset(committed)) == committed


@pytest.mark.parametrize(("refusal", "errors"), [(None, [0, 86]), (ErrorCode.GROUP_ID_NOT_FOUND, [])])
async def test_a_deletion_is_answered(refusal: ErrorCode | None, errors: list[int]) -> None:
    topics = [
        offset_delete.RequestTopic(name=name, partitions=[offset_delete.RequestPartition(partition_index=0)])
        for name in ("t", "u")
    ]
    answer = await offset_delete.handle(offset_delete.Request(group_id="g", topics=topics), broker(refusal), SESSION)
    assert answer.error_code == (refusal or 0)
    assert [one.error_code for topic in answer.topics for one in topic.partitions] == errors


async def test_a_group_that_is_named_again_and_again_is_not_told_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 times a group of 1,000 offsets would be more than there is memory."""
    monkeypatch.setattr(offset_fetch, "MOST_REPEATED", 2 * len(HELD))
    groups = [
        offset_fetch.RequestGroup(group_id=one, topics=None, member_epoch=-number)  # by whichever member
        for number, one in enumerate("gggghg", start=1)
    ]
    groups.append(offset_fetch.RequestGroup(group_id="g", topics=[offset_fetch.Topic(name="a", partition_indexes=[3])]))
    answer = await offset_fetch.handle(offset_fetch.Request(groups=groups), broker(), SESSION)
    told = [(one.group_id, one.error_code, sum(len(topic.partitions) for topic in one.topics)) for one in answer.groups]
    refused = ("g", ErrorCode.INVALID_REQUEST, 0)
    assert told == [("g", 0, 3), ("g", 0, 3), ("g", 0, 3), refused, ("h", 0, 0), refused, ("g", 0, 1)]
