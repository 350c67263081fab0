"""Schedules of the copying threads that chance hardly finds: one request is late, or one write is slow."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.transactions.model_copying import Message, Request, Rule, Thread, World

Condition = Callable[[Request], bool]


class _Steady(random.Random):
    """Nothing is lost, everything goes where it should, all transactions are of one record and commit."""

    drawn = 0.4

    def random(self) -> float:
        return self.drawn


class Schedule:
    """A world in which one thread has the input, and the others wait for it."""

    def __init__(self, protocol: int, off: frozenset[Rule]) -> None:
        self.world = World(0, protocol, off)
        self._chance = self.world.chance = _Steady(0)
        self._late: Message | None = None
        self.run_until(lambda request: False)
        self.rebalance(0)
        self.arrive_all()
        self.world.poll()

    @property
    def thread(self) -> Thread:
        """The one that has the input."""
        return next(thread for thread in self.world.threads if thread.waiting.api != "poll")

    def rebalance(self, thread: int) -> None:
        """The group's new generation is on its way."""
        self._chance.drawn = (thread + 0.5) / len(self.world.threads)
        self.world.rebalance()
        self._chance.drawn = 0.4

    def run_until(self, reached: Condition, requests: int = 60) -> None:
        """All requests arrive in turn, until one that is to be sent next is reached."""
        for _ in range(requests):
            self.arrive_all()
            messages = [message for message in self.world.messages if message is not self._late]
            if not messages or reached(messages[0].request):
                return
            self.world.arrive(messages[0])

    def next_is_late(self, repeated: bool = True) -> None:
        """The next request is delayed; perhaps the client sends it again on another connection."""
        (self._late,) = self.world.messages
        if repeated:
            self.thread.lose_patience()

    def late_one_arrives(self) -> None:
        assert self._late is not None
        self.world.arrive(self._late)
        self._late = None
        self.arrive_all()

    def arrive_all(self) -> None:
        """What is on its way to Pulsar is stored."""
        while self.world.appends or self.world.writes:
            if self.world.appends:
                self.world.store(0)
            if self.world.writes:
                self.world.write_on(0)

    def violations(self) -> set[str]:
        """What is to be seen once the transaction under way has ended, and everything has stopped."""
        self.run_until(lambda request: request.api == "end")
        self.run_until(lambda request: request.api != "end", 2)
        self.world.messages.clear()
        return self.world.end()


def late_offset(protocol: int, off: frozenset[Rule]) -> set[str]:
    """A copy of a TxnOffsetCommit meets a later transaction."""
    schedule = Schedule(protocol, off)
    schedule.run_until(lambda request: request.api == "offset")
    schedule.next_is_late()
    schedule.run_until(lambda request: request.api == "end")
    first = schedule.thread.waiting.number
    schedule.run_until(lambda request: request.api == "end" and request.number > first)
    schedule.late_one_arrives()
    return schedule.violations()


def late_end(protocol: int, off: frozenset[Rule], slot_is_taken: bool = False) -> set[str]:
    """A copy of an EndTxn meets a later transaction, which has its record and not yet its offset."""
    schedule = Schedule(protocol, off)
    schedule.run_until(lambda request: request.api == "end")
    schedule.next_is_late()
    schedule.run_until(lambda request: request.api != "end")
    schedule.run_until(lambda request: request.what != "" or request.api == "offset")
    if slot_is_taken:
        schedule.world.take(0)
    schedule.late_one_arrives()
    schedule.world.messages.clear()
    return schedule.world.end()


def member_of_the_generation_before(protocol: int, off: frozenset[Rule]) -> set[str]:
    """A TxnOffsetCommit arrives while the next generation is being stored, and is stored behind it."""
    schedule = Schedule(protocol, off)
    world = schedule.world
    schedule.run_until(lambda request: request.api == "offset")
    if protocol == 2:  # the coordinator adds the group first
        world.arrive(world.messages[0])
        world.write_on(0)
        schedule.rebalance(1)
        world.write_on(0)
    else:
        schedule.rebalance(1)
        world.arrive(world.messages[0])
    world.write_on(0)
    world.write_on(0)
    world.poll()
    world.arrive(next(message for message in world.messages if message.request.api == "fetch"))
    return _both_commit(schedule)


def offset_that_may_still_change(protocol: int, off: frozenset[Rule]) -> set[str]:
    """The next member asks for the offset while the transaction of the one before is open."""
    schedule = Schedule(protocol, off)
    schedule.run_until(lambda request: request.api == "end")
    schedule.next_is_late(repeated=False)
    schedule.rebalance(1)
    schedule.arrive_all()
    schedule.world.poll()
    schedule.run_until(lambda request: request.api == "end")
    schedule.late_one_arrives()
    return _both_commit(schedule)


def _both_commit(schedule: Schedule) -> set[str]:
    schedule.run_until(lambda request: request.thread == 1 and request.api == "end")
    return schedule.violations()


def time_out_from_an_old_memory(protocol: int, off: frozenset[Rule]) -> set[str]:
    """A commit is stored late, and the holder does not wait for its receipt."""
    schedule = Schedule(protocol, off)
    world = schedule.world
    schedule.run_until(lambda request: request.api == "end")
    world.arrive(world.messages[0])
    world.give_up_a_write()
    world.time_out(0)
    world.write_on(0)
    world.write_on(0)
    for reader in world.readers:
        world.follow(reader.node)
        reader.read()
    world.messages.clear()
    return world.end()
