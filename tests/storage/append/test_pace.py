"""When a client's batches wait for those to come: by the answers it has had."""

import asyncio
from itertools import pairwise

import pytest

from bridge.storage.append import pace as module
from bridge.storage.append.pace import Pace
from tests.support.waiting import until


class Client:
    """One whose requests are sent at once, or together with others."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.sent: list[int] = []
        """How many requests, each time."""
        self._waiting = 0

    def requests(self, count: int, *, large: bool = False) -> None:
        """Come one after another; those that are large have nothing to hold."""
        for _ in range(count):
            self.pace.begin()
            if self.pace.holds and not large:
                if not self._waiting:
                    self.pace.hold(self._release)
                self._waiting += 1
            else:
                self.sent.append(1)
            self.pace.end()

    def answers(self, count: int) -> None:
        """Go out together."""
        for _ in range(count):
            self.pace.answered()

    def new(self) -> list[int]:
        """What was sent since the last look."""
        sent, self.sent = self.sent, []
        return sent

    def _release(self) -> None:
        self.sent.append(self._waiting)
        self._waiting = 0


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Time stands still for it."""
    monkeypatch.setattr(module, "loop_time", lambda: 1000.0)
    return Client()


async def test_those_that_follow_answers_go_together_with_the_last_of_them(client: Client) -> None:
    client.requests(5)
    assert client.new() == [1] * 5, "nothing was answered yet, so none waits"
    for _ in range(3):
        client.answers(5)
        client.requests(4)
        assert client.new() == []
        client.requests(1)
        assert client.new() == [5]


async def test_who_waits_for_each_answer_never_waits_here(client: Client) -> None:
    for _ in range(50):
        client.requests(1)
        assert client.new() == [1]
        client.answers(1)


async def test_who_waits_in_vain_is_sent_soon_and_waits_less_often(client: Client) -> None:
    """It has as many on their way as ever, and two answers, but sends when it has something to send."""
    client.requests(5)
    client.new()
    waits: list[int] = []
    for number in range(300):
        client.answers(2)  # and one follows
        client.requests(1)
        if not client.sent:
            waits.append(number)
            await until(lambda: bool(client.sent))
        assert client.new() == [1]
        client.requests(1)  # by the clock
        assert client.new() == [1]
    distances = [after - before for before, after in pairwise(waits)]
    assert 3 < len(waits) < 10
    assert distances == sorted(distances)


async def test_who_has_had_more_on_their_way_waits_for_nothing(client: Client) -> None:
    client.requests(5)
    client.answers(5)
    client.new()
    client.requests(3)
    assert client.new() == []
    await until(lambda: bool(client.sent))
    assert client.new() == [3], "there were five, and five may come"
    for _ in range(20):
        client.answers(2)
        client.requests(2)
        assert client.new() == [1, 1], "there are three, and all that it had to send"
    client.requests(2)
    client.new()
    client.answers(5)
    client.requests(4)
    assert client.new() == []
    client.requests(1)
    assert client.new() == [5], "there are five again"


async def test_answers_of_long_ago_announce_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.requests(3)
    client.answers(3)
    monkeypatch.setattr(module, "loop_time", lambda: 1001.0)
    client.requests(2)
    assert client.new() == [1] * 5


async def test_requests_with_nothing_to_hold_go_at_once(client: Client) -> None:
    client.requests(5, large=True)
    for _ in range(30):
        client.answers(5)
        client.requests(5, large=True)
    assert client.new() == [1] * 155
    assert client.pace._timer is None


async def test_those_apart_are_brought_together_once_in_a_while(client: Client) -> None:
    client.requests(5)
    client.new()
    rounds = 0
    while True:
        client.answers(1)
        client.requests(1)
        if not client.new():
            break
        client.answers(4)
        client.requests(4)
        assert client.new() == [4]
        rounds += 1
    assert rounds == module._STEADY
    client.answers(2)
    client.requests(2)
    assert client.new() == [], "two of the others have no answer yet"
    client.answers(2)
    client.requests(2)
    assert client.new() == [5]
    for _ in range(3):
        client.answers(5)
        client.requests(5)
        assert client.new() == [5]


async def test_what_waits_for_answers_that_do_not_come_is_sent(client: Client) -> None:
    client.requests(5)
    for _ in range(module._STEADY):
        client.answers(1)
        client.requests(1)
        client.answers(4)
        client.requests(4)
    client.new()
    client.answers(1)
    client.requests(1)
    assert client.new() == []
    await until(lambda: bool(client.sent))
    assert client.new() == [1]
    client.answers(4)
    client.requests(1)
    assert client.new() == [1]
    await asyncio.sleep(5 * module._HOLD_SECONDS)
    assert client.sent == []
