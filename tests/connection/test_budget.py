"""The memory budget: which connection may take more, which waits, and that none waits forever."""

import pytest

from bridge.connection.budget import SMALL, Budget, Lease
from bridge.connection.intake import Intake
from bridge.kafka.frames import FrameReceiver
from bridge.telemetry.instruments import Gauge

LIMIT = 8 * 1024 * 1024
BIG = 4 * SMALL


class Waiter(Lease):
    """Counts how often it was called."""

    def __init__(self) -> None:
        super().__init__(self._called)
        self.calls = 0

    def _called(self) -> None:
        self.calls += 1


def make() -> tuple[Budget, Gauge]:
    gauge = Gauge()
    return Budget(LIMIT, gauge), gauge


def test_what_is_given_back_can_be_taken_again() -> None:
    budget, gauge = make()
    lease = Waiter()
    assert budget.request(lease, 100, 100)
    budget.take(lease, 50)
    assert (budget.held, gauge.value) == (150, 150)
    budget.release(lease, 150)
    assert (budget.held, gauge.value, lease.held) == (0, 0, 0)


def test_at_the_limit_no_connection_reads_until_something_is_released() -> None:
    budget, _ = make()
    full, reader = Waiter(), Waiter()
    budget.take(full, LIMIT)
    assert not budget.may_read(reader)
    budget.release(full, 1)
    assert reader.calls == 1
    assert budget.may_read(reader)


def test_big_frames_leave_room_for_small_ones() -> None:
    budget, _ = make()
    first, second, small = Waiter(), Waiter(), Waiter()
    assert budget.request(first, LIMIT * 3 // 4 - 1, LIMIT)
    assert budget.request(first, BIG, LIMIT)  # the favoured one
    assert not budget.request(second, BIG, LIMIT)
    assert budget.may_read(small)
    assert budget.request(small, SMALL, SMALL)


def test_one_frame_at_a_time_may_exceed_the_limit_and_the_others_follow_in_their_order() -> None:
    budget, _ = make()
    leases = [Waiter() for _ in range(4)]
    for lease in leases[:3]:
        assert budget.request(lease, LIMIT // 4 - 1, LIMIT)
    assert budget.request(leases[0], LIMIT, 2 * LIMIT)
    assert not budget.request(leases[1], LIMIT, 2 * LIMIT)
    assert not budget.request(leases[2], LIMIT, 2 * LIMIT)
    budget.release(leases[0], leases[0].held)
    assert [lease.calls for lease in leases] == [0, 1, 0, 0]
    budget.release(leases[1], leases[1].held)
    assert [lease.calls for lease in leases] == [0, 1, 1, 0]
    budget.release(leases[2], leases[2].held)
    assert budget.held == 0


def test_who_asks_again_keeps_his_place() -> None:
    budget, _ = make()
    full, first, second = Waiter(), Waiter(), Waiter()
    budget.take(full, LIMIT)
    assert budget.request(full, BIG, LIMIT)
    assert not budget.request(first, BIG, LIMIT)
    assert not budget.request(second, BIG, LIMIT)
    assert not budget.request(first, BIG, LIMIT)
    budget.release(full, BIG)
    assert (first.calls, second.calls) == (1, 0)


def test_who_leaves_is_not_called() -> None:
    budget, _ = make()
    full, gone = Waiter(), Waiter()
    budget.take(full, LIMIT)
    assert not budget.may_read(gone)
    budget.withdraw(gone)
    budget.release(full, LIMIT)
    assert gone.calls == 0


def test_memory_that_is_granted_and_cannot_be_had_costs_who_waited_for_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The grant comes in the midst of the work of another, who gives memory back."""
    budget, _ = make()
    first, favoured = Waiter(), Waiter()
    budget.take(first, LIMIT)
    assert budget.request(favoured, BIG, LIMIT)
    told: list[str] = []
    scratch = memoryview(bytearray(BIG))
    waiting = Intake(LIMIT, budget, scratch, lambda: told.append("granted"), lambda: told.append("denied"))
    scratch[:4] = (LIMIT - 1).to_bytes(4, "big")
    waiting.received(BIG, 0.0)
    while waiting.has_memory():
        waiting.received(len(waiting.buffer()), 0.0)

    def none(receiver: FrameReceiver, count: int) -> None:
        raise MemoryError

    monkeypatch.setattr(FrameReceiver, "grow", none)
    budget.release(favoured, BIG)
    budget.release(first, LIMIT)
    assert told == ["denied"]
    waiting.drop()
    assert budget.held == 0


def test_above_half_a_connection_waits_for_its_own_answers_and_others_read_on() -> None:
    """As many clients as there are of a topic that Pulsar throttles: they never have all of the memory."""
    budget, _ = make()
    slow, other = [Waiter() for _ in range(20)], Waiter()
    for lease in slow:
        while budget.may_read(lease):
            budget.take(lease, 2 * SMALL)
    assert budget.held < LIMIT
    assert budget.may_read(other)
    budget.take(other, SMALL)
    assert budget.may_read(other)
    first = slow[0]
    budget.release(first, first.held - SMALL)
    assert first.calls == 1
    assert budget.may_read(first)
    for lease in slow:
        budget.release(lease, lease.held)
    assert all(lease.calls == 1 for lease in slow)


def test_who_waits_for_his_own_answers_goes_on_where_others_give_back() -> None:
    budget, _ = make()
    first, second = Waiter(), Waiter()
    budget.take(first, LIMIT // 4)
    budget.take(second, LIMIT // 4)
    assert not budget.may_read(first)
    budget.release(second, 1)
    assert first.calls == 1
    assert budget.may_read(first)


def test_who_leaves_while_it_waits_is_not_called() -> None:
    budget, _ = make()
    first, second = Waiter(), Waiter()
    budget.take(first, LIMIT // 4)
    budget.take(second, LIMIT // 4)
    assert not budget.may_read(first)
    budget.withdraw(first)
    budget.release(second, LIMIT // 4)
    assert first.calls == 0
