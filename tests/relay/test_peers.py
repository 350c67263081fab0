"""Connections to other nodes: answers in any order, and an error at once when a node is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.config import INTERNAL
from bridge.kafka import envelope, message
from bridge.relay.peers import Peers, Unreachable
from bridge.runtime.futures import loop_time

HOST = "127.0.0.1"
OTHER = 5
Frames = asyncio.Queue[tuple[int, asyncio.StreamWriter]]


def _request(text: bytes) -> envelope.Request:
    return envelope.Request(request_data=text, request_principal=None, client_host_address=b"")


def _answer(number: int, text: bytes) -> bytes:
    body = message.encode(envelope.Response(response_data=text, error_code=0), 0, True)
    return (5 + len(body)).to_bytes(4, "big") + number.to_bytes(4, "big") + b"\0" + body


@asynccontextmanager
async def node() -> AsyncIterator[tuple[int, Frames]]:
    """A server, its port, and the correlation ids that it gets."""
    got: Frames = asyncio.Queue()
    open_now: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                assert frame[:4] == bytes((0, envelope.KEY, 0, 0))
                got.put_nowait((int.from_bytes(frame[4:8], "big"), writer))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            open_now.discard(writer)
            writer.transport.abort()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1], got
    finally:
        server.close()
        for writer in list(open_now):
            writer.transport.abort()
        await server.wait_closed()


def _view(version: int, *endpoints: Endpoint, incarnation: int = 1, here: bool = True) -> ClusterView:
    members = {OTHER: NodeRegistration("other", incarnation, OTHER, endpoints)} if here else {}
    return ClusterView(version, OTHER, members, {"other": OTHER})


def _peers(*endpoints: Endpoint) -> tuple[Cluster, Peers]:
    cluster = Cluster("id")
    peers = Peers(cluster)
    cluster.update(_view(1, *endpoints), 1, Serving.SERVE)
    return cluster, peers


def _nothing(answer: asyncio.Future[bytes]) -> None:
    pass


async def test_answers_come_in_any_order() -> None:
    async with node() as (port, got):
        _, peers = _peers(Endpoint("PLAINTEXT", HOST, 1), Endpoint(INTERNAL, HOST, port))
        asked = [asyncio.ensure_future(peers.ask(OTHER, _request(b"%d" % number), 0, _nothing)) for number in range(3)]
        frames = [await got.get() for _ in asked]
        for number, writer in reversed(frames):
            writer.write(_answer(number, b"to %d" % number))
        told = [(await one).response_data for one in asked]
        assert told == [b"to %d" % number for number, _ in frames]
        assert len({writer for _, writer in frames}) == 1
        peers.close()


async def test_an_answer_that_no_caller_waits_for_is_dropped() -> None:
    async with node() as (port, got):
        _, peers = _peers(Endpoint(INTERNAL, HOST, port))
        sent: asyncio.Future[asyncio.Future[bytes]] = asyncio.get_running_loop().create_future()
        given_up = asyncio.ensure_future(peers.ask(OTHER, _request(b"a"), 0, sent.set_result))
        (await sent).cancel()
        with pytest.raises(Unreachable):
            await given_up
        first, writer = await got.get()
        second = asyncio.ensure_future(peers.ask(OTHER, _request(b"b"), 0, _nothing))
        number, _ = await got.get()
        writer.write(_answer(first, b"late") + _answer(number, b"own"))
        assert (await second).response_data == b"own"
        peers.close()


def _removed(cluster: Cluster, port: int) -> None:
    cluster.update(_view(2, here=False), 1, Serving.SERVE)


def _started_again(cluster: Cluster, port: int) -> None:
    cluster.update(_view(2, Endpoint(INTERNAL, HOST, port), incarnation=2), 1, Serving.SERVE)


@pytest.mark.parametrize("gone", [_removed, _started_again])
async def test_a_node_that_the_view_says_is_gone_is_not_waited_for(gone: Callable[[Cluster, int], None]) -> None:
    """A frozen one keeps its connections open, and would be waited for forever."""
    async with node() as (port, got):
        cluster, peers = _peers(Endpoint(INTERNAL, HOST, port))
        asked = asyncio.ensure_future(peers.ask(OTHER, _request(b"a"), 0, _nothing))
        await got.get()
        gone(cluster, port)
        with pytest.raises(Unreachable):
            await asked
        peers.close()


async def test_a_connection_that_is_lost_is_made_again() -> None:
    async with node() as (port, got):
        _, peers = _peers(Endpoint(INTERNAL, HOST, port))
        asked = asyncio.ensure_future(peers.ask(OTHER, _request(b"a"), 0, _nothing))
        _, writer = await got.get()
        writer.transport.abort()
        with pytest.raises(Unreachable):
            await asked
        again = asyncio.ensure_future(peers.ask(OTHER, _request(b"b"), 0, _nothing))
        number, writer = await got.get()
        writer.write(_answer(number, b"here"))
        assert (await again).response_data == b"here"
        peers.close()


async def test_what_is_no_answer_ends_the_connection() -> None:
    async with node() as (port, got):
        _, peers = _peers(Endpoint(INTERNAL, HOST, port))
        asked = asyncio.ensure_future(peers.ask(OTHER, _request(b"a"), 0, _nothing))
        _, writer = await got.get()
        writer.write(b"\xff\xff\xff\xff")
        with pytest.raises(Unreachable):
            await asked
        peers.close()


async def test_a_node_that_cannot_be_reached_is_not_dialled_for_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with node() as (port, _):
        pass  # nobody listens there any more
    _, peers = _peers(Endpoint(INTERNAL, HOST, port))
    dialled: list[int] = []
    dial = asyncio.open_connection

    async def counted(*where: Any, **how: Any) -> Any:
        dialled.append(port)
        return await dial(*where, **how)

    monkeypatch.setattr(asyncio, "open_connection", counted)
    for _ in range(20):
        with pytest.raises(Unreachable):
            await peers.ask(OTHER, _request(b"a"), 0, _nothing)
    assert len(dialled) == 1
    later = loop_time() + 1
    monkeypatch.setattr("bridge.relay.peers.loop_time", lambda: later)
    with pytest.raises(Unreachable):
        await peers.ask(OTHER, _request(b"a"), 0, _nothing)
    assert len(dialled) == 2
    peers.close()


async def test_what_is_not_answered_is_told_once_a_minute_of_each_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, peers = _peers()
    now = loop_time()
    monkeypatch.setattr("bridge.relay.peers.loop_time", lambda: now)
    for _ in range(5):
        for other in (OTHER, OTHER + 1):
            peers.note_unanswered(other, "EndTxn", TimeoutError())
    now += 60
    peers.note_unanswered(OTHER, "EndTxn", Unreachable("gone"))
    fields = [vars(one)["fields"] for one in caplog.records]
    told = [(one["node"], one["error"], one.get("more")) for one in fields]
    assert told == [(OTHER, "no answer", None), (OTHER + 1, "no answer", None), (OTHER, "gone", 4)]


async def test_a_node_without_an_internal_listener_cannot_be_asked() -> None:
    _, peers = _peers(Endpoint("PLAINTEXT", HOST, 1))
    for other in (OTHER, 77):
        with pytest.raises(Unreachable):
            await peers.ask(other, _request(b"a"), 0, _nothing)
    peers.close()


async def test_a_node_that_does_not_listen_cannot_be_asked() -> None:
    async with node() as (port, _):
        pass
    _, peers = _peers(Endpoint(INTERNAL, HOST, port))
    with pytest.raises(Unreachable):
        await peers.ask(OTHER, _request(b"a"), 0, _nothing)
    peers.close()
