"""What a request costs, counted and not timed: Python functions and bytecode instructions of the bridge's own code.

Not those of the event loop: it is another one here than in production, and Python's own. Who makes a request cheaper
lowers the limits; who needs more says why.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import pytest

import bridge as ours
from bridge.apis import fetch, produce
from bridge.codec import TWIN
from tests.apis.wire import Connection, frame, unique
from tests.connection.straight.asking import NEWEST, Taken, at_tail, batch, create, fetched, produced, stored
from tests.support.bridges import BridgeThread

REQUESTS = 50
_OURS = str(Path(ours.__file__).parent)


class Counted:
    """Counts what the thread of a bridge's event loop runs."""

    def __init__(self, bridge: BridgeThread) -> None:
        self._bridge = bridge
        self.functions = self.instructions = 0
        self._marks: list[tuple[int, int]] = []

    def _call(self, running: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if not running.f_code.co_filename.startswith(_OURS):
                return None
            self.functions += 1
            running.f_trace_opcodes, running.f_trace_lines = True, False
        elif event == "opcode":
            self.instructions += 1
        return self._call

    def answered(self) -> None:
        """A request that came alone has its answer."""
        self._marks.append((self.functions, self.instructions))

    def check(self, functions: int, instructions: int) -> None:
        """Of each request at most so many, of requests that came alone the median: the loop does other things, too."""
        found = self.functions / REQUESTS, self.instructions / REQUESTS
        if self._marks:
            each = [(to[0] - before[0], to[1] - before[1]) for before, to in pairwise([(0, 0), *self._marks])]
            found = median(one[0] for one in each), median(one[1] for one in each)
        print(f"figures: {found[0]:.1f} functions, {found[1]:.0f} instructions")
        assert found[0] < functions
        assert found[1] < instructions

    async def _set(self, trace: Any) -> None:
        asyncio.get_running_loop().call_soon(sys.settrace, trace)

    def __enter__(self) -> "Counted":
        self._bridge.call(self._set(self._call))
        return self

    def __exit__(self, *_: object) -> None:
        self._bridge.call(self._set(None))


@pytest.fixture
def bridge(bridge_with: Callable[..., BridgeThread]) -> BridgeThread:
    """One of the test's own: what others' clients still ask would be counted, too."""
    return bridge_with()


@pytest.fixture
def topic(bridge: BridgeThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The event loop's slices last as long as they take: how many there are is no matter of time then."""
    monkeypatch.setattr("bridge.runtime.scheduler._clock", lambda: 0.0)
    name = unique("cost")
    create(bridge, name)
    yield name


def test_a_produce_among_others_of_its_connection(bridge: BridgeThread, topic: str) -> None:
    request = produced(topic, batch(b"x" * 100))
    with Connection(bridge.kafka) as client:
        client.ask(produce.API, request, NEWEST)
        with Counted(bridge) as counted:
            client.send_bytes(frame(produce.API, request, NEWEST) * REQUESTS)
            for _ in range(REQUESTS):
                assert stored(client.receive(produce.API, NEWEST))[0] == 0
    counted.check(70, 2200 if TWIN == "native" else 2600)


def test_a_produce_alone(bridge: BridgeThread, topic: str) -> None:
    request = produced(topic, batch(b"x" * 100))
    with Connection(bridge.kafka) as client:
        client.ask(produce.API, request, NEWEST)
        with Counted(bridge) as counted:
            for _ in range(REQUESTS):
                assert stored(client.ask(produce.API, request, NEWEST))[0] == 0
                counted.answered()
    counted.check(180, 5000)


def test_a_fetch_from_memory(bridge: BridgeThread, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Connection(bridge.kafka) as client:
        at_tail(client, topic, Taken(monkeypatch))
        with Counted(bridge) as counted:
            for _ in range(REQUESTS):
                assert client.ask(fetch.API, fetched(topic, 0), 11).responses[0].partitions[0].records
                counted.answered()
    counted.check(95, 2400)
