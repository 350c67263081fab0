"""Nodes prove to each other that they have the secret of their cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.config import INTERNAL
from bridge.errors import StartupError
from bridge.kafka import envelope
from bridge.relay.node_login import NodeSecret, NotProven
from bridge.relay.peers import Peers, Unreachable
from tests.connection.harness import Bench, serving

HOST = "127.0.0.1"
TEXT = "a secret of all nodes"


def secret(directory: Path, text: str = TEXT) -> NodeSecret:
    file = directory / f"secret-{abs(hash(text))}"
    file.write_text(text + "\n")
    return NodeSecret(str(file))


async def prove(bench: Bench, own: NodeSecret) -> None:
    reader, writer = await asyncio.open_connection(HOST, bench.port)
    try:
        await own.prove(reader, writer)
    finally:
        writer.close()


async def test_who_has_it_is_let_in(tmp_path: Path) -> None:
    async with serving(logins=secret(tmp_path).logins()) as bench:
        await prove(bench, secret(tmp_path))
        assert bench.metrics.logins() == {("SCRAM-SHA-256", "succeeded"): 1}


async def test_who_has_another_one_is_not(tmp_path: Path) -> None:
    async with serving(logins=secret(tmp_path).logins(), connection_failed_authentication_delay_ms=0) as bench:
        with pytest.raises(NotProven, match="it has another secret"):
            await prove(bench, secret(tmp_path, "a secret of other nodes"))
        assert bench.metrics.logins() == {("SCRAM-SHA-256", "failed"): 1}


async def test_a_node_that_asks_for_none_is_not_trusted(tmp_path: Path) -> None:
    async with serving() as bench:
        with pytest.raises(NotProven, match="it asks for no secret"):
            await prove(bench, secret(tmp_path))


@pytest.mark.parametrize("said", [b"", b"r=x", b"r=x,s=c2FsdHNhbHRzYWx0,i=4096"])
async def test_one_that_says_yes_to_all_is_not_trusted(said: bytes, tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for body in (bytes(10), _yes(said), _yes(said)):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                writer.write(len(body).to_bytes(4, "big") + body)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.transport.abort()
            ended.set()

    server = await asyncio.start_server(serve, HOST, 0)
    reader, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
    with pytest.raises(NotProven):
        await secret(tmp_path).prove(reader, writer)
    writer.transport.abort()
    await ended.wait()
    server.close()
    await server.wait_closed()


def _yes(said: bytes) -> bytes:
    """An answer of SaslAuthenticate v2."""
    return bytes(4) + b"\0" + bytes(2) + b"\0" + bytes([len(said) + 1]) + said + bytes(8) + b"\0"


async def test_a_peer_without_it_is_unreachable(tmp_path: Path) -> None:
    async with serving(logins=secret(tmp_path).logins(), connection_failed_authentication_delay_ms=0) as bench:
        cluster = Cluster("id")
        peers = Peers(cluster, secret(tmp_path, "a secret of other nodes"))
        members = {5: NodeRegistration("other", 1, 5, (Endpoint(INTERNAL, HOST, bench.port),))}
        cluster.update(ClusterView(1, 5, members, {"other": 5}), 1, Serving.SERVE)
        request = envelope.Request(request_data=b"", request_principal=None, client_host_address=b"")
        with pytest.raises(Unreachable, match="it has another secret"):
            await peers.ask(5, request, 0, lambda answer: None)
        peers.close()


@pytest.mark.parametrize("text", ["", "short", "fifteen letters", "sixteen\x01 letters", "sechzehn Zeichän"])
def test_a_file_without_a_secret_stops_the_start(text: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="at least 16 printable characters"):
        secret(tmp_path, text)


def test_it_is_not_shown(tmp_path: Path) -> None:
    assert TEXT not in repr(secret(tmp_path))
    with pytest.raises(StartupError, match="No such file"):
        NodeSecret(str(tmp_path / "none"))
