"""What a request costs, counted and not timed: Python functions and bytecode instructions of the bridge's own code.

Not those of the event loop: it is another one here than in production, and Python's own. Who makes a request cheaper
lowers the limits; who needs more says why.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import bridge as ours
from bridge.apis import fetch, produce
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

    def _call(self, running: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if not running.f_code.co_filename.startswith(_OURS):
                return None
            self.functions += 1
            running.f_trace_opcodes, running.f_trace_lines = True, False
        elif event == "opcode":
            self.instructions += 1
        return self._call

    def check(self, functions: int, instructions: int) -> None:
        """Of each request, at most so many."""
        print(f"figures: {self.functions / REQUESTS:.1f} functions, {self.instructions / REQUESTS:.0f} instructions")
        assert self.functions < functions * REQUESTS
        assert self.instructions < instructions * REQUESTS

    async def _set(self, trace: Any) -> None:
        asyncio.get_running_loop().call_soon(sys.settrace, trace)

    def __enter__(self) -> "Counted":
        self._bridge.call(self._set(self._call))
        return self

    def __exit__(self, *_: object) -> None:
        self._bridge.call(self._set(None))


@pytest.fixture
def topic(bridge: BridgeThread) -> Iterator[str]:
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
    counted.check(70, 2200)


def test_a_produce_among_those_of_other_connections(bridge: BridgeThread, topic: str) -> None:
    request = produced(topic, batch(b"x" * 100))
    with ExitStack() as opened:
        clients = [opened.enter_context(Connection(bridge.kafka)) for _ in range(REQUESTS)]
        for client in clients:
            client.ask(produce.API, request, NEWEST)
        with Counted(bridge) as counted:
            for client in clients:
                client.send(produce.API, request, NEWEST)
            for client in clients:
                assert stored(client.receive(produce.API, NEWEST))[0] == 0
    counted.check(140, 4000)


def test_a_produce_alone(bridge: BridgeThread, topic: str) -> None:
    request = produced(topic, batch(b"x" * 100))
    with Connection(bridge.kafka) as client:
        client.ask(produce.API, request, NEWEST)
        with Counted(bridge) as counted:
            for _ in range(REQUESTS):
                assert stored(client.ask(produce.API, request, NEWEST))[0] == 0
    counted.check(180, 5000)


def test_a_fetch_from_memory(bridge: BridgeThread, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Connection(bridge.kafka) as client:
        at_tail(client, topic, Taken(monkeypatch))
        with Counted(bridge) as counted:
            for _ in range(REQUESTS):
                assert client.ask(fetch.API, fetched(topic, 0), 11).responses[0].partitions[0].records
    counted.check(95, 2400)
