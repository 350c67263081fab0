"""Clients that are connected to other nodes: what they have here ends with their connection, whatever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.relay.internal_listener import DistantClients
from bridge.requests.session import Session
from bridge.runtime.scheduler import SlicedCalls

_CONNECTION = 7


class Bench:
    """A link of another node, and what has ended."""

    def __init__(self) -> None:
        self.clients = DistantClients(SlicedCalls(asyncio.get_running_loop()))
        self.link = self.session(1)
        self.ended: list[str] = []

    def session(self, id_: int = _CONNECTION) -> Session:
        return Session(id=id_, peer="10.0.0.1:0", listener="")

    def ask(self, *opens: str) -> list[bool]:
        """A request that opens these; whether each stays."""
        with self.clients.asking(self.link, _CONNECTION, self.session()) as session:
            return [session.on_close(one, lambda one=one: self.ended.append(one)) for one in opens]  # type: ignore[misc]


async def test_what_its_requests_have_opened_ends_with_the_connection() -> None:
    bench = Bench()
    assert bench.ask("a") == [True]
    assert bench.ask("b") == [True]
    bench.clients.lost(bench.link.id, _CONNECTION + 1)
    assert bench.ended == []
    bench.clients.lost(bench.link.id, _CONNECTION)
    assert bench.ended == ["a", "b"]
    bench.clients.lost(bench.link.id, _CONNECTION)
    assert bench.ended == ["a", "b"]


async def test_what_its_requests_have_opened_ends_with_the_link() -> None:
    bench = Bench()
    bench.ask("a")
    bench.link.closed()
    assert bench.ended == ["a"]
    assert bench.ask("b") == [False]


async def test_a_request_that_goes_on_when_its_connection_is_lost_opens_nothing() -> None:
    bench = Bench()
    loses: tuple[Callable[[], None], ...] = (
        lambda: bench.clients.lost(bench.link.id, _CONNECTION), bench.link.closed,
    )  # fmt: skip
    for lose in loses:
        with bench.clients.asking(bench.link, _CONNECTION, bench.session()) as session:
            lose()
            assert not session.on_close("late", lambda: bench.ended.append("late"))
    assert bench.ended == []


async def test_a_connection_that_has_opened_nothing_leaves_nothing() -> None:
    bench = Bench()
    with (
        bench.clients.asking(bench.link, _CONNECTION, bench.session()) as first,
        bench.clients.asking(bench.link, _CONNECTION, bench.session()) as second,
    ):
        assert second is first
    with bench.clients.asking(bench.link, _CONNECTION, bench.session()) as third:
        assert third is not first
