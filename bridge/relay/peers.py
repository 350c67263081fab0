"""Connections to the internal listeners of other nodes: many requests at a time on each, answered in any order."""

import asyncio
import itertools
from collections.abc import Callable
from math import inf
from typing import Final, TypeAlias

from bridge.cluster import Cluster, ClusterSnapshot
from bridge.config import INTERNAL
from bridge.connection.parts import cancelled_from_outside
from bridge.errors import BridgeError
from bridge.kafka import envelope, frames, message
from bridge.kafka.primitives import DecodeError
from bridge.relay.node_login import NodeSecret, NotProven
from bridge.relay.sockets import notice_silence
from bridge.runtime.futures import loop_time, retrieve_exception
from bridge.telemetry import log

_log = log.get(__name__)

_CONNECTIONS: Final = 2
"""To each node: a request of megabytes does not hold up all others."""
_HEADER_BYTES: Final = 5
"""Of an answer: its number, and no tags."""
_CONNECT_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.5
"""Until a node that could not be reached is tried again."""
_TOLD_SECONDS: Final = 60.0
"""Between two lines about one node."""
_MAX_ANSWER_BYTES: Final = 100 * 1024 * 1024

Sent: TypeAlias = "Callable[[asyncio.Future[bytes]], object]"
"""Called with the future of an answer when its request is written."""


class Unreachable(BridgeError):
    """A node cannot be asked, or its answer was lost."""


class Peer:
    """One connection to another node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return not (self._reading.done() or self._writer.is_closing())

    async def ask(self, request: envelope.Request, sent: Sent) -> envelope.Response:
        """Send an Envelope and wait for its answer; Unreachable. `sent` may cancel the wait: the answer is dropped."""
        number = next(self._numbers)
        version = envelope.OF_A_NAMESPACE if request.namespace else envelope.VERSION
        body = message.encode(request, version, True)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(retrieve_exception)
        self._waiting[number] = answer
        try:
            self._writer.writelines(frames.request(envelope.KEY, version, number, "", True, body))
            sent(answer)
            await self._writer.drain()
            payload = await answer
        except OSError as error:
            raise Unreachable(str(error)) from None
        except asyncio.CancelledError:
            if cancelled_from_outside():
                raise
            raise Unreachable("no client waits for the answer") from None
        finally:
            answer.cancel()
            self._waiting.pop(number, None)
        try:
            return message.decode(
                envelope.Response, memoryview(payload)[_HEADER_BYTES:], envelope.VERSION, True
            )  # after its header
        except DecodeError as error:
            raise Unreachable(str(error)) from None

    def close(self) -> None:
        """Close at once; all that wait get `Unreachable`."""
        self._writer.transport.abort()
        self._reading.cancel()
        self._fail("the connection was closed")

    async def _read(self) -> None:
        reason: object = "the connection was closed"
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
                if not _HEADER_BYTES <= size <= _MAX_ANSWER_BYTES:
                    raise Unreachable(f"an answer of {size} bytes")
                payload = await self._reader.readexactly(size)
                answer = self._waiting.get(int.from_bytes(payload[:4], "big", signed=True))
                if answer is not None and not answer.done():
                    answer.set_result(payload)
        except (OSError, EOFError, Unreachable) as error:
            reason = error
        finally:
            self._writer.transport.abort()
            self._fail(str(reason))

    def _fail(self, reason: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Unreachable(reason))


class Peers:
    """The connections to all nodes, made when first needed, and dropped with the node."""

    def __init__(self, cluster: Cluster, secret: NodeSecret | None = None) -> None:
        self._cluster = cluster
        self._secret = secret
        self._peers: dict[tuple[int, int], asyncio.Task[Peer]] = {}
        self._lives: dict[int, int] = {}
        """The incarnation of each node that there are connections to."""
        self._failed_at: dict[int, float] = {}
        """When each could not be reached."""
        self._told: dict[int, tuple[float, int]] = {}
        """When the log was told of each last, and how often there was something to tell since."""
        cluster.on_change.append(self._changed)

    async def ask(self, node: int, request: envelope.Request, spread: int, sent: Sent) -> envelope.Response:
        """Ask a node; Unreachable. `spread`: a number of the client's connection."""
        key = (node, spread % _CONNECTIONS)
        connecting = self._peers.get(key)
        is_lost = connecting is not None and connecting.done() and not _is_usable(connecting)
        if connecting is None or (is_lost and loop_time() - self._failed_at.get(node, -inf) >= _AGAIN_SECONDS):
            connecting = self._peers[key] = asyncio.get_running_loop().create_task(self._connect(node))
            connecting.add_done_callback(_retrieve)
        try:
            peer = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled():
                raise Unreachable(f"node {node} has gone") from None
            raise
        return await peer.ask(request, sent)

    def note_unanswered(self, node: int, api: str, error: Exception) -> None:
        """A request got no answer: the log is told at once, and then once a minute of each node."""
        now = loop_time()
        told_at, more = self._told.get(node, (-inf, 0))
        if now - told_at < _TOLD_SECONDS:
            self._told[node] = told_at, more + 1
            return
        self._told[node] = now, 0
        fields = {"node": node, "api": api, "error": str(error) or "no answer"}
        _log.warning("! node unreachable", extra=fields | ({"more": more} if more else {}))

    def close(self) -> None:
        """Close all."""
        for node, _ in list(self._peers):
            self._drop(node)

    def _changed(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        """A node that is frozen keeps its connections open: only the view says that it serves no more."""
        members = self._cluster.view.members
        for node, life in list(self._lives.items()):
            member = members.get(node)
            if member is None or member.incarnation != life:
                self._drop(node)

    def _drop(self, node: int) -> None:
        self._lives.pop(node, None)
        self._failed_at.pop(node, None)
        for number in range(_CONNECTIONS):
            connecting = self._peers.pop((node, number), None)
            if connecting is None:
                continue
            if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
                connecting.result().close()
            connecting.cancel()

    async def _connect(self, node: int) -> Peer:
        member = self._cluster.view.members.get(node)
        endpoint = None if member is None else member.endpoint_at(INTERNAL)
        if member is None or endpoint is None:
            raise Unreachable(f"node {node} has no internal listener")
        self._lives[node] = member.incarnation
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
                if self._secret is not None:
                    await _proven(self._secret, reader, writer)
        except (OSError, TimeoutError, NotProven) as error:
            self._failed_at[node] = loop_time()
            raise Unreachable(f"{endpoint.host}:{endpoint.port}: {error}") from None
        notice_silence(writer.get_extra_info("socket"), unacknowledged=True)
        return Peer(reader, writer)


async def _proven(secret: NodeSecret, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await secret.prove(reader, writer)
    except BaseException:
        writer.transport.abort()
        raise


def _is_usable(connecting: "asyncio.Task[Peer]") -> bool:
    return not connecting.cancelled() and connecting.exception() is None and connecting.result().is_open


def _retrieve(connecting: "asyncio.Task[Peer]") -> None:
    if not connecting.cancelled():
        connecting.exception()
