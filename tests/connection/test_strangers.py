"""Of one address some connections log in at a time, the others wait: for a place, for a second, or for their end."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from bridge.connection import strangers
from bridge.connection.strangers import StrangerPlace, Strangers
from tests.connection.harness import connected, serving
from tests.connection.logging_in import echoes, log_in, logins
from tests.support.waiting import until

HERE, THERE = "192.0.2.1", "192.0.2.2"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[Callable[[], Pair]]:
    """A bridge's socket and its client's."""
    with ExitStack() as opened:

        def pair() -> Pair:
            ours, theirs = socket.socketpair()
            theirs.settimeout(10)
            return opened.enter_context(ours), opened.enter_context(theirs)

        yield pair


class Door:
    """Where sockets come in."""

    def __init__(self) -> None:
        self.strangers = Strangers()
        self.came: list[socket.socket] = []
        self.places: list[StrangerPlace] = []
        self.blocked: set[str] = set()

    def come(self, sock: socket.socket, host: str = HERE) -> bool:
        return self.strangers.come(sock, host, partial(self._enter, sock), lambda host: host in self.blocked)

    def _enter(self, sock: socket.socket, place: StrangerPlace) -> None:
        self.came.append(sock)
        self.places.append(place)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST", 1)


async def test_one_too_many_waits_for_the_place_of_another_of_its_address(
    pairs: Callable[[], Pair], one_at_a_time: None
) -> None:
    door = Door()
    first, second, third, other = (pairs()[0] for _ in range(4))
    assert [door.come(first), door.come(second), door.come(third)] == [True, False, False]
    assert door.come(other, THERE), "another address has places of its own"
    assert (door.strangers.waiting(), door.strangers.waiting(HERE), door.strangers.waiting(THERE)) == (2, 2, 0)
    door.places[0].leave()
    door.places[0].leave()
    assert door.came == [first, other, second], "a place is left once"
    door.places[-1].leave()
    assert (door.came[-1], door.strangers.waiting()) == (third, 0)
    door.strangers.close()


async def test_who_comes_later_does_not_overtake(pairs: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    monkeypatch.setattr(strangers, "MOST", 1)
    door.come(pairs()[0])
    door.come(pairs()[0])
    monkeypatch.setattr(strangers, "MOST", 2)
    assert not door.come(pairs()[0])
    door.strangers.close()


async def test_those_of_a_blocked_address_are_closed(pairs: Callable[[], Pair], one_at_a_time: None) -> None:
    door = Door()
    door.come(pairs()[0])
    waiting = [pairs() for _ in range(100)]
    for ours, _ in waiting:
        door.come(ours)
    door.blocked.add(HERE)
    door.places[0].leave()
    await until(lambda: not door.strangers.waiting())
    assert [theirs.recv(1) for _, theirs in waiting] == [b""] * 100
    assert len(door.came) == 1
    door.blocked.clear()
    assert door.come(pairs()[0])
    door.strangers.close()


async def test_none_waits_for_long(
    pairs: Callable[[], Pair], one_at_a_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "WAIT_SECONDS", 0.02)
    door = Door()
    came = [pairs()[0] for _ in range(20)]
    for sock in came:
        door.come(sock)
    await until(lambda: door.came == came)
    for place in door.places:
        place.leave()
    assert door.come(pairs()[0])
    door.strangers.close()


async def test_what_waits_is_closed_at_the_end(pairs: Callable[[], Pair], one_at_a_time: None) -> None:
    door = Door()
    (first, _), (ours, theirs) = pairs(), pairs()
    door.come(first)
    door.come(ours)
    door.strangers.close()
    assert theirs.recv(1) == b""
    door.places[0].leave()
    assert door.came == [first]


async def test_a_client_leaves_its_place_when_it_has_logged_in_and_when_it_is_gone(one_at_a_time: None) -> None:
    async with serving(logins=logins(), connection_failed_authentication_delay_ms=0) as bench:
        held = bench.listener.shared.strangers
        async with connected(bench) as first, connected(bench) as second, connected(bench) as third:
            await until(lambda: held.waiting() == 2)
            await log_in(first)
            await log_in(second, "alice", "wrong")
            assert await second.closed() == b""
            await log_in(third)
            assert await echoes(first) and await echoes(third)
        async with connected(bench) as client:
            await log_in(client)
            assert await echoes(client)


async def test_without_log_in_all_come_in(one_at_a_time: None) -> None:
    async with serving() as bench, connected(bench) as first, connected(bench) as second:
        assert await echoes(second) and await echoes(first)
        assert not bench.listener.shared.strangers.waiting()
