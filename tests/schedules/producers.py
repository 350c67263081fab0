"""Kafka producers that retry, as the clients of Kafka do, and what they know of what became of each record.

One partition, one record a batch. The idempotent one follows KIP-98 and KIP-360 as Java's `TransactionManager` and
librdkafka's `rd_kafka_idemp_*` do it: at most five batches under way, sent again in order of their sequences. When a
batch has taken longer than the delivery time-out it has failed for its application, and its outcome is unknown: the
producer waits until nothing is under way, raises its epoch, and sends what is left from sequence 0 on. That a batch is
refused as out of order is an error otherwise: librdkafka raises its epoch for all partitions then
(`rd_kafka_handle_idempotent_Produce_error`), and sends under it again what a node that died may have stored.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from bridge.kafka.error_codes import ErrorCode
from tests.schedules.kafka import NO_ANSWER, NOW_MS, Client, Produced, batch, error_name
from tests.schedules.world import Bridge, World

_IN_FLIGHT: Final = 5
_RETRIABLE: Final = frozenset(
    {
        NO_ANSWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True, eq=False)
class Batch:
    """One record on its way."""

    value: bytes
    timestamp: int
    deadline: float
    sequence: int | None = None
    not_before: float = 0.0
    attempts: int = 0
    client: Client | None = None
    """The connection that it was sent on last."""


@dataclass(slots=True)
class Fate:
    """What the application and the client know of a record."""

    acked_at: int | None = None
    """The offset that it was told; −1: stored, at an offset that is not known."""
    implied: bool = False
    """A later record of the same epoch was acknowledged: librdkafka takes it for stored then."""
    failed: bool = False
    epochs: set[int] = field(default_factory=set)
    """Those under which it was sent."""
    attempts: int = 0


class RetryingProducer:
    """See the module; with `producer_id` −1 a plain one, one batch at a time."""

    def __init__(
        self, world: World, bridge: Bridge, topic: str, name: str, *, producer_id: int = -1, partition: int = 0,
        request_seconds: float = 10.0, delivery_seconds: float = 60.0, hangs_up_after: float | None = None,
    ) -> None:  # fmt: skip
        """`request_seconds` is the time-out in the request; `hangs_up_after` is the client's own, else it expects an
        answer five seconds after that, and fails the run where none comes."""
        self.name = name
        self.fates: dict[bytes, Fate] = {}
        self.error: str | None = None
        self.errors: Counter[int] = Counter()
        """The answers that were none of success, by their codes."""
        self.moves = 0
        """How often it raised its epoch."""
        self._world = world
        self._bridges = [bridge]
        self._topic, self._partition = topic, partition
        self._producer_id = producer_id
        self._request_seconds, self._delivery_seconds = request_seconds, delivery_seconds
        self._hangs_up_after = hangs_up_after
        self._client = self._connect(bridge)
        self._gone: set[Client] = set()
        self._epoch = 0
        self._next_sequence = 0
        self._unresolved = False
        self._waiting: deque[Batch] = deque()
        self._under_way: dict[asyncio.Task[Produced], Batch] = {}
        self._changed = asyncio.Event()
        self._finishing = False

    # --- for scenarios ----------------------------------------------------------------------------------------------

    def send(self, value: bytes, timestamp: int = NOW_MS) -> None:
        """Have a record sent."""
        self.fates[value] = Fate()
        self._waiting.append(Batch(value, timestamp, self._world.now + self._delivery_seconds))
        self._changed.set()

    def finish(self) -> None:
        """Nothing more comes: `run` ends when everything has its outcome."""
        self._finishing = True
        self._changed.set()

    def move_to(self, bridge: Bridge) -> None:
        """Go on through another node, as when the leader has changed."""
        self._hang_up(bridge)

    def follow(self, bridge: Bridge) -> None:
        """Send what comes next to another node, and wait for the answers of the former one."""
        self._client = self._connect(bridge)

    async def run(self) -> None:
        """Send until all is acknowledged or has failed; AssertionError for what a sound server does not do."""
        while self.error is None:
            self._expire()
            if self._unresolved and not self._under_way:
                self._raise_epoch()
                continue
            if self._finishing and not self._waiting and not self._under_way:
                break
            pause = self._send_what_may_go()
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait((waiting, *self._under_way), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            for task in [task for task in self._under_way if task.done()]:
                self._answer(self._under_way.pop(task), task.result())
        assert self.error is None, self.error

    # --- sending ----------------------------------------------------------------------------------------------------

    def _connect(self, bridge: Bridge) -> Client:
        return Client(self._world, bridge, self.name)

    def _send_what_may_go(self) -> float | None:
        """Send; seconds until there may be more to do, None where only an answer matters."""
        most = _IN_FLIGHT if self._producer_id >= 0 else 1
        while self._waiting and len(self._under_way) < most and not self._unresolved:
            if any(one.client in self._gone for one in self._under_way.values()):
                break  # what is lost with a connection goes first on the next one
            first = self._waiting[0]
            if first.not_before > self._world.now:
                return min(first.not_before, first.deadline) - self._world.now
            self._start(self._waiting.popleft())
        deadlines = [one.deadline for one in (*self._waiting, *self._under_way.values())]
        return max(min(deadlines) - self._world.now, 0.001) if deadlines else None

    def _start(self, one: Batch) -> None:
        producer = (-1, -1, -1)
        fate = self.fates[one.value]
        if self._producer_id >= 0:
            if one.sequence is None:
                one.sequence = self._next_sequence
                self._next_sequence += 1
            producer = (self._producer_id, self._epoch, one.sequence)
            fate.epochs.add(self._epoch)
        fate.attempts += 1
        one.attempts += 1
        one.client = self._client
        self._world.trace(self.name, "< produce %s as %s, attempt %d", one.value, producer, one.attempts)
        data = batch([one.value], [one.timestamp], producer)
        task = asyncio.ensure_future(self._request(self._client, data))
        self._under_way[task] = one

    async def _request(self, client: Client, data: bytes) -> Produced:
        seconds = self._hangs_up_after or self._request_seconds + 5.0
        produced = await client.produce(
            self._topic, data, partition=self._partition, timeout_ms=int(self._request_seconds * 1000), seconds=seconds
        )
        if produced.error == NO_ANSWER and client is self._client:
            if self._hangs_up_after is None:
                self.error = f"{self.name}: a Produce had no answer {seconds:g} s after it was sent"
            self._hang_up(client.bridge)
        return produced

    def _hang_up(self, bridge: Bridge) -> None:
        """Whatever is under way on this connection has no answer."""
        former, self._client = self._client, self._connect(bridge)
        self._gone.add(former)
        former.hang_up()

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        """Give up on records that took too long."""
        now = self._world.now
        for one in [one for one in self._waiting if one.deadline <= now]:
            self._waiting.remove(one)
            self._fail(one)
        for task in [task for task, one in self._under_way.items() if one.deadline <= now]:
            one = self._under_way.pop(task)
            self._fail(one)
            task.add_done_callback(lambda _: self._changed.set())
            self._world.after_all(task, "Produce that its producer has given up")

    def _fail(self, one: Batch) -> None:
        self._world.trace(self.name, "! %s has failed after %d attempts", one.value, one.attempts)
        self.fates[one.value].failed = True
        if one.attempts and self._producer_id >= 0:
            self._unresolved = True

    def _raise_epoch(self) -> None:
        self._unresolved = False
        self._epoch += 1
        self._next_sequence = 0
        self.moves += 1
        self._world.trace(self.name, "= epoch %d", self._epoch)
        for one in self._waiting:
            one.sequence = None

    def _answer(self, one: Batch, produced: Produced) -> None:
        if produced.error in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.fates[one.value].acked_at = produced.offset if produced.error == 0 else -1
            if one.sequence is not None:
                for other in (*self._waiting, *self._under_way.values()):
                    if other.sequence is not None and other.sequence < one.sequence:
                        self.fates[other.value].implied = True
            return
        self.errors[produced.error] += 1
        if not self._may_try_again(one, produced):
            self.error = f"{self.name}: {one.value!r} has {error_name(produced.error)}: {produced.message}"
            return
        one.not_before = self._world.now + 0.1
        at = next((at for at, other in enumerate(self._waiting) if _after(other, one)), len(self._waiting))
        self._waiting.insert(at, one)

    def _may_try_again(self, one: Batch, produced: Produced) -> bool:
        if produced.error in _RETRIABLE:
            return True
        if produced.error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or one.sequence is None:
            return False
        return self._unresolved


def _after(other: Batch, one: Batch) -> bool:
    """Whether a waiting batch comes after one that is sent again."""
    return other.sequence is None or (one.sequence is not None and other.sequence > one.sequence)
