"""A share partition that is led here: what is not stored, what another leader has taken, who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bridge.apis import share_fetch
from bridge.codec import Rebuild, Record, build_batch
from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.configs import GroupConfigs
from bridge.groups.share.states import ShareStates, ShareWrite
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.share import Opened
from bridge.runtime.futures import FutureWaiter, loop_time
from bridge.shares import partition
from bridge.shares.partition import LedPartition, Name
from bridge.shares.partitions import Shares
from bridge.shares.state import ACCEPT, REJECT, RELEASE, RENEW, Acknowledgement
from bridge.storage.partition import PartitionLog
from bridge.telemetry.metrics import ShareMetrics
from tests.groups.store.fake_store import FakeStore

_NAME = Name("g", UUID(int=7), 0)
_NOT_HAD = ErrorCode.INVALID_RECORD_STATE
_ALL = [Acknowledgement(0, 2, ACCEPT)]


class _Log:
    """A log of three records."""

    known_start = 0
    is_led = True

    def __init__(self) -> None:
        self.most_bytes = 0
        """That were asked for at a time."""

    async def earliest(self) -> int:
        return 0

    def read_nowait(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[bytes]:
        self.most_bytes = max(self.most_bytes, max_bytes)
        records = [Record(number, 0, None, b"value", ()) for number in range(3)]
        return [build_batch(records, Rebuild(0, 3, 0))] if offset < 3 else []


class _Coordinator:
    """What it answers was true when it was asked, and may be long on its way."""

    def __init__(self, states: ShareStates) -> None:
        self._states = states
        self.has_answered = asyncio.Event()
        self.arrives = asyncio.Event()
        self.arrives.set()

    def delay(self) -> None:
        self.has_answered.clear()
        self.arrives.clear()

    async def read(self, *asked: Any) -> Any:
        return await self._answer(self._states.read(*asked))

    async def write(self, *asked: Any) -> None:
        await self._answer(self._states.write(*asked))

    async def check(self, *asked: Any) -> None:
        await self._answer(self._states.check(*asked))

    async def _answer(self, work: Any) -> Any:
        answer = await work
        self.has_answered.set()
        await self.arrives.wait()
        return answer


class _Bench:
    """One node with the leader and the coordinator."""

    def __init__(self, set_configs: Mapping[str, str] | None = None, *, coordinates: bool = False) -> None:
        self.store = FakeStore()
        self.metrics = ShareMetrics()
        self.states = ShareStates(self.store, lambda: 0)
        configs = GroupConfigs(
            GroupSettings(), lambda group_id: {"share.auto.offset.reset": "earliest", **(set_configs or {})}
        )
        self.coordinator = _Coordinator(self.states)
        self.shares = Shares(self.coordinator, configs, self.metrics, coordinates=coordinates)
        self.states.on_changed.append(self.shares.changed)
        self.log = _Log()
        self.session = self.shares.sessions.open("g", "a", 1)

    async def led(self, epoch: int = 1) -> LedPartition:
        await self.states.initialize(*_NAME)
        led = await self.shares.led(_NAME, cast(PartitionLog, self.log), epoch)
        self.session.has_opened((_NAME.topic_id, 0), led)
        return led


async def _acquire(led: LedPartition, member: str = "a") -> list[tuple[int, int, int]]:
    found = await led.acquire(member, 500, 1 << 20, 1.0, lambda: True)
    return [] if found is None else [(one.first, one.last, one.delivery) for one in found.acquired]


async def _code(answer: Any) -> int:
    with pytest.raises(KafkaError) as raised:
        await answer
    return raised.value.code


async def _code_of(led: LedPartition, *said: Acknowledgement) -> int:
    async def say() -> None:
        await led.acknowledge("a", said)

    return await _code(say())


async def test_what_is_acknowledged_is_stored() -> None:
    bench = _Bench()
    led = await bench.led()
    assert await _acquire(led) == [(0, 2, 1)]
    assert await _acquire(led, "b") == []
    await led.acknowledge("a", _ALL)
    summary = await bench.states.summary(*_NAME)
    assert summary is not None
    assert summary.start == 3


async def test_a_member_that_takes_50_mib_does_not_have_so_much_read_for_some_records() -> None:
    """Each request would read all that the log has from there on, and the next one the same again."""
    bench = _Bench()
    led = await bench.led()
    found = await led.acquire("a", 500, 50 << 20, 1.0, lambda: True)
    assert found is not None
    assert bench.log.most_bytes == 1 << 20


async def test_what_is_not_stored_may_be_acknowledged_again() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    bench.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert await _code(led.acknowledge("a", _ALL)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.fails = None
    await led.acknowledge("a", _ALL)
    led.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))


async def test_a_renewal_waits_for_no_store() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    bench.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await led.acknowledge("a", [Acknowledgement(0, 2, RENEW)])
    assert bench.metrics.acknowledged["renew"].value == 3
    assert bench.metrics.write_errors.value == 0
    led.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))


async def test_locks_are_not_renewed_where_the_group_does_not_let_them() -> None:
    led = await _Bench({"share.renew.acknowledge.enable": "false"}).led()
    await _acquire(led)
    assert await _code_of(led, Acknowledgement(0, 1, ACCEPT), Acknowledgement(2, 2, RENEW)) == _NOT_HAD
    await led.acknowledge("a", _ALL)


@pytest.mark.parametrize("kind", [ACCEPT, RENEW])
async def test_what_a_member_does_not_have_is_not_counted(kind: int) -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    assert await _code_of(led, Acknowledgement(0, 3, kind)) == _NOT_HAD
    assert {one.value for one in bench.metrics.acknowledged.values()} == {0}


async def test_what_lies_before_the_start_is_not_counted_again() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    for said in (Acknowledgement(0, 1, ACCEPT), Acknowledgement(0, 1, ACCEPT), Acknowledgement(0, 2, ACCEPT)):
        await led.acknowledge("a", [said])
    assert bench.metrics.acknowledged["accept"].value == 3


async def test_a_leader_that_another_one_follows_is_told() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    await bench.states.read(*_NAME, 2)
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    assert await _code(led.acknowledge("a", _ALL)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await waiter.future
    assert led.is_closed
    assert await _code(_acquire(led)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await _code(bench.led()) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await _acquire(await bench.led(epoch=2)) == [(0, 2, 1)]


async def test_a_coordinator_that_is_away_is_asked_again() -> None:
    bench = _Bench()
    await bench.states.initialize(*_NAME)
    bench.store.refuses = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert await _code(bench.shares.led(_NAME, cast(PartitionLog, _Log()), 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.refuses = None
    assert await _acquire(await bench.led()) == [(0, 2, 1)]


async def test_who_waits_is_told_of_what_is_released_and_of_another_state() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    led.release("a", counts=True)
    await waiter.future
    assert await _acquire(led, "b") == [(0, 2, 2)]
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    await bench.states.alter(*_NAME, 1)
    await waiter.future
    assert await _acquire(await bench.led()) == [(1, 2, 1)]


async def test_a_write_that_ends_in_another_error_leaves_nobody_waiting() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    bench.store.fails = RuntimeError("a fault")
    assert await _code(led.acknowledge("a", _ALL)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert led.is_closed


@pytest.mark.parametrize("is_read_again", [False, True])
async def test_what_nobody_reads_any_more_is_closed_when_all_is_stored(is_read_again: bool) -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    bench.store.held_back = []
    bench.shares.sessions.close(bench.session, counts=True)
    (writing,) = (one for one in asyncio.all_tasks() if one.get_name() == "write share state")
    await asyncio.sleep(0)  # it begins
    assert not led.is_closed
    if is_read_again:
        bench.shares.sessions.open("g", "b", 2).has_opened((_NAME.topic_id, 0), led)
    bench.store.release()
    await writing
    assert led.is_closed != is_read_again


async def test_who_looks_in_vain_wakes_nobody() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    assert await _acquire(led, "b") == []
    assert not waiter.future.done()
    await led.acknowledge("a", _ALL)
    await waiter.future


async def test_what_becomes_of_records_is_counted() -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    await led.acknowledge("a", [Acknowledgement(at, at, kind) for at, kind in enumerate((ACCEPT, REJECT, RELEASE))])
    for _ in range(4):  # it is delivered five times at most
        await _acquire(led)
        await led.acknowledge("a", [Acknowledgement(2, 2, RELEASE)])
    metrics = bench.metrics
    assert {name: one.value for name, one in metrics.acknowledged.items()} == {
        "gap": 0, "accept": 1, "reject": 1, "release": 5, "renew": 0,
    }  # fmt: skip
    assert (metrics.delivered.value, metrics.given_up.value, metrics.expired.value) == (7, 1, 0)


async def test_a_partition_that_another_node_leads_now() -> None:
    bench = _Bench()
    led = await bench.led()
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    await _acquire(led)
    bench.shares.drop_lost()
    assert not led.is_closed
    bench.log.is_led = False
    bench.shares.drop_lost()
    await waiter.future
    assert await _code(led.acquire("a", 500, 1 << 20, 1.0, lambda: True)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_that_another_one_was_between_reads_again() -> None:
    bench = _Bench()
    first = await bench.led(epoch=1)
    await _acquire(first)
    await bench.states.read(*_NAME, 2)
    await bench.states.write(*_NAME, ShareWrite(0, 2, 2, 2, (), 0))
    second = await bench.led(epoch=3)
    assert first.is_closed
    assert await _acquire(second) == [(2, 2, 1)]


async def _acquired_when_confirmed(led: LedPartition) -> list[tuple[int, int, int]]:
    """What is had once the coordinator has answered."""
    await _woken(led)
    return await _acquire(led)


async def _woken(led: LedPartition) -> None:
    """Nothing is to be had, until the coordinator has answered."""
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    assert await _acquire(led) == []
    await waiter.future


async def test_a_leader_hands_out_by_what_the_coordinator_has_said_a_short_time_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = _Bench()
    led = await bench.led()
    await _acquire(led)
    led.release("a", counts=False)
    bench.shares.doubt("other")
    assert await _acquire(led) == [(0, 2, 1)]
    led.release("a", counts=False)
    now = loop_time()
    monkeypatch.setattr(partition, "loop_time", lambda: now + 1.1)
    assert await _acquired_when_confirmed(led) == [(0, 2, 1)]


@pytest.mark.parametrize("changes", ["altered", "recreated", "led by another"])
async def test_who_begins_to_read_has_nothing_by_a_state_that_was_changed_elsewhere(changes: str) -> None:
    bench = _Bench()
    led = await bench.led()
    bench.states.on_changed.clear()  # as in another node
    if changes == "altered":
        await bench.states.alter(*_NAME, 1)
    elif changes == "recreated":
        await bench.states.delete("g", [(_NAME.topic_id, 0)])
        await bench.states.initialize(*_NAME)
    else:
        await bench.states.read(*_NAME, 2)
    assert await _acquire(led) == [(0, 2, 1)]  # until it is found out
    led.release("a", counts=False)
    bench.shares.doubt("g")
    assert await _code(_acquired_when_confirmed(led)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.is_closed


async def test_who_begins_to_read_is_given_what_offsets_that_were_altered_elsewhere_have_more() -> None:
    bench = _Bench()
    led = await bench.led()
    bench.states.on_changed.clear()  # as in another node
    await _acquire(led)
    await led.acknowledge("a", _ALL)
    await bench.states.alter(*_NAME, 1)
    bench.shares.doubt("g")
    assert await _code(_acquired_when_confirmed(led)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await _acquire(await bench.led()) == [(1, 2, 1)]


async def test_a_leader_gives_nothing_while_nobody_confirms_it() -> None:
    bench = _Bench()
    led = await bench.led()
    bench.shares.doubt("g")
    bench.store.refuses = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for _ in range(2):
        assert await _acquire(led) == []
        await asyncio.sleep(0)
    bench.store.refuses = None
    assert await _acquired_when_confirmed(led) == [(0, 2, 1)]


@pytest.mark.parametrize("asked", ["read", "write", "check"])
async def test_an_answer_that_was_on_its_way_when_a_member_began_to_read_counts_for_nothing(asked: str) -> None:
    bench = _Bench()
    bench.states.on_changed.clear()  # as in another node
    led = await bench.led()
    await _acquire(led)
    await led.acknowledge("a", [Acknowledgement(0, 1, RELEASE)])
    work: asyncio.Future[Any]
    if asked == "read":
        led.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        bench.coordinator.delay()
        work = asyncio.ensure_future(bench.led())
    elif asked == "write":
        bench.coordinator.delay()
        work = led.acknowledge("a", [Acknowledgement(2, 2, RELEASE)])
    else:
        bench.shares.doubt("g")
        bench.coordinator.delay()
        work = asyncio.ensure_future(_woken(led))
    await bench.coordinator.has_answered.wait()
    await bench.states.alter(*_NAME, 1)
    bench.shares.doubt("g")
    bench.coordinator.arrives.set()
    await work
    assert await _code(_acquired_when_confirmed(await bench.led())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await _acquire(await bench.led()) == [(1, 2, 1)]


async def test_a_coordinator_that_leads_goes_on_whatever_the_view_is() -> None:
    bench = _Bench(coordinates=True)
    led = await bench.led(5)
    assert await _acquire(led) == [(0, 2, 1)]
    assert await bench.led(6) is led
    await led.acknowledge("a", _ALL)


async def test_what_is_opened_for_a_coordinator_in_an_older_view_serves_a_newer_one() -> None:
    bench = _Bench(coordinates=True)
    bench.coordinator.delay()
    first, second = (asyncio.ensure_future(bench.led(epoch)) for epoch in (5, 6))
    await bench.coordinator.has_answered.wait()
    bench.coordinator.arrives.set()
    assert await first is await second


async def test_groups_that_another_node_coordinates_have_no_sessions_here() -> None:
    bench = _Bench(coordinates=True)
    led = await bench.led(5)
    await _acquire(led)
    writes = bench.store.writes
    bench.shares.end_groups(lambda group_id: group_id == "h")
    assert bench.session.is_open
    bench.shares.end_groups(lambda group_id: group_id == "g")
    assert not bench.session.is_open
    assert led.is_closed
    with pytest.raises(KafkaError) as raised:
        bench.shares.sessions.next("g", "a", 1)
    assert raised.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert bench.store.writes == writes
    assert await bench.led(7) is not led


async def test_what_is_opened_when_the_group_is_lost_is_not_used() -> None:
    bench = _Bench(coordinates=True)
    bench.coordinator.delay()
    opening = asyncio.ensure_future(bench.led(5))
    await bench.coordinator.has_answered.wait()
    bench.shares.end_groups(lambda group_id: True)
    bench.coordinator.arrives.set()
    assert await _code(opening) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_beyond_the_budget_of_ranges_no_new_records_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was given before goes on, and the next ones come when there is room again."""
    monkeypatch.setattr(partition, "MOST_RANGES", 2)
    monkeypatch.setattr(partition, "_FEW_RANGES", 1)
    bench = _Bench()
    led = await bench.led()
    found = await led.acquire("a", 2, 1 << 20, 1.0, lambda: True, is_strict=True)
    assert found is not None
    assert [one[:2] for one in found.acquired] == [(0, 1)]
    await led.acknowledge("a", [Acknowledgement(1, 1, REJECT)])
    assert bench.metrics.ranges.value == 2
    assert await _acquire(led, "b") == []
    await led.acknowledge("a", [Acknowledgement(0, 0, RELEASE)])
    assert await _acquire(led, "b") == [(0, 0, 2)]
    await led.acknowledge("b", [Acknowledgement(0, 0, ACCEPT)])
    assert bench.metrics.ranges.value == 0
    assert await _acquire(led, "b") == [(2, 2, 1)]
    led.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert bench.metrics.ranges.value == 0


class _Short(_Log):
    """Its three records; as `PartitionLog`, it knows no offsets beyond its end."""

    async def read(self, offset: int, *limits: Any, **fields: Any) -> list[bytes]:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in 0 … 3")

    def read_nowait(self, offset: int, max_bytes: int, *, committed: bool = False) -> Any:
        return super().read_nowait(offset, max_bytes, committed=committed) if offset <= 3 else None


async def test_where_there_are_no_records_yet_there_is_nothing_to_give() -> None:
    """Kafka's leader answers without records (`ShareFetchUtils.processFetchResponse`). By an error that it does not
    know in a ShareFetch, as this one, Java's consumer ends its program's poll with IllegalStateException."""
    bench = _Bench()
    bench.log = _Short()
    await bench.states.initialize(*_NAME)
    await bench.states.alter(*_NAME, 1000)
    led = await bench.shares.led(_NAME, cast(PartitionLog, bench.log), 1)
    assert await _acquire(led) == []
    assert not led.is_closed


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_no_error_that_share_consumers_do_not_know_is_told(code: ErrorCode) -> None:
    """As `ShareFetchCollector.handleInitializeErrors` of Kafka 4.1 to 4.3 has them."""
    error = KafkaError(code)
    part = share_fetch._Partition(Opened("t", error), error=error)
    hints: Any = SimpleNamespace(leader=lambda *asked: None)
    assert share_fetch._partition(0, part, hints).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_who_finds_nothing_there_is_not_woken_by_that() -> None:
    bench = _Bench()
    bench.log = _Short()
    await bench.states.initialize(*_NAME)
    await bench.states.alter(*_NAME, 1000)
    led = await bench.shares.led(_NAME, cast(PartitionLog, bench.log), 1)
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    assert await _acquire(led) == []
    await asyncio.sleep(0.01)
    assert not waiter.future.done()
