"""The request handlers of a node behind one address: what has an owner is asked of it, wherever the client is."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from bridge.cluster import Cluster
from bridge.cluster.membership.view import NO_NODE
from bridge.connection.requests import LARGE_BYTES
from bridge.connection.responses import is_long
from bridge.errors import KafkaError, Unanswered
from bridge.kafka import envelope, message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import DecodeError
from bridge.relay.peers import Peers, Unreachable
from bridge.relay.questions import answered, decoded, enveloped, tell_connection
from bridge.requests.api import Api, Broker, Handle
from bridge.requests.responses import DeferredResponse
from bridge.requests.routes import Route
from bridge.requests.session import Session
from bridge.runtime.futures import gathered

_ANSWER_SECONDS: Final = 30.0
"""How long an owner may take that does not wait for others itself."""


class Relaying:
    """Serves what this node owns, and asks other nodes for the rest."""

    def __init__(self, broker: Broker, peers: Peers, namespace: str = "") -> None:
        """`broker`: what handlers are given for what this node owns; its cluster is that of the nodes. `namespace`: in
        which the clients work; empty: the bridge's own."""
        self._namespace = namespace
        self._broker = broker
        self._cluster: Cluster = broker.cluster
        self._peers = peers
        self._telling = set[asyncio.Task[None]]()

    def apis(self, table: Mapping[int, Api]) -> dict[int, Api]:
        """The same APIs, those with owners behind their owners."""
        return {
            key: api if api.route is None else replace(api, handle=self._handler(api, api.route), at_once=False)
            for key, api in table.items()
        }

    # ---- owners ------------------------------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> int:
        """The node that has a group's slot."""
        return self._of_slot(self._broker.groups.slot_of(group_id))

    def of_partition(self, topic: str, partition: int) -> int:
        """The node that leads a partition."""
        node = self._cluster.snapshot.leader(topic, partition).node
        return NO_NODE if node is None else node.id

    async def of_transaction(self, transactional_id: str) -> int:
        """The node that coordinates a transactional id; this one where there are none yet: its handler says so."""
        try:
            slot = await self._broker.transactions.known_group_slot_of(transactional_id)
        except KafkaError:
            return NO_NODE
        return self._cluster.node_id if slot is None else self._of_slot(slot)

    def all(self) -> Sequence[int]:
        """Every node, this one first."""
        here = self._cluster.node_id
        return [here, *(node.id for node in self._cluster.snapshot.nodes if node.id != here)]

    def _of_slot(self, group_slot: int) -> int:
        node = self._cluster.snapshot.coordinator(group_slot)
        return NO_NODE if node is None else node.id

    def _incarnation(self) -> int:
        member = self._cluster.view.members.get(self._cluster.node_id)
        return 0 if member is None else member.incarnation

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _handler(self, api: Api, route: Route) -> Handle:
        async def handle(request: Any, broker: Broker, session: Session) -> Any:
            parts = await route.divided(request, self)
            if len(parts) == 1 and self._cluster.node_id in parts:
                return await api.handle(request, self._broker, session)
            version = session.api_version
            asked = (self._ask(api, route, owner, part, version, session) for owner, part in parts.items())
            return route.checked(route.put_together(request, await gathered(asked)), session)

        return handle

    async def _ask(self, api: Api, route: Route, owner: int, request: Any, version: int, session: Session) -> Any:
        if owner == self._cluster.node_id:
            return await self._ask_here(api, request, session)
        try:
            if owner != NO_NODE:
                answer = await self._ask_elsewhere(api, route, owner, request, version, session)
                if answer is not None:  # else that node does not serve this version, or this namespace
                    return answer
        except (Unreachable, TimeoutError, DecodeError) as error:
            self._peers.note_unanswered(owner, api.name, error)
        pause = route.pause(request)
        if pause > 0:
            await asyncio.sleep(pause)
        return _unreachable(api, request, route.unreachable, version)

    async def _ask_here(self, api: Api, request: Any, session: Session) -> Any:
        result = await api.handle(request, self._broker, session)
        if isinstance(result, DeferredResponse):
            answer = await result.future
            return answer if result.make is None else result.make(answer)
        return result

    async def _ask_elsewhere(
        self, api: Api, route: Route, owner: int, request: Any, version: int, session: Session
    ) -> Any:
        flexible, threads = api.is_flexible(version), self._broker.cpu_thread
        request = route.limited(request, session.remaining_response_bytes())
        encode = message.encode
        long = is_long(request)
        body = await threads.run(encode, request, version, flexible) if long else encode(request, version, flexible)
        asked = enveloped(api, version, body, self._namespace, session)
        if route.tells_connection:
            tell_connection(asked, session, self._incarnation())

        def lost() -> None:
            self._tell_loss(owner, session.id)

        if route.tells_loss and not session.on_close((Relaying, owner), lost, always=True):
            raise Unreachable("the client has gone")  # before this was sent: the owner would not be told of it

        def sent(answer: "asyncio.Future[bytes]") -> None:
            if api.waits:  # perhaps for long, and for nothing once the client is gone
                session.on_close(Relaying, lambda: _give_up(answer), always=True)

        async with asyncio.timeout(None if api.waits else _ANSWER_SECONDS):
            response = await self._peers.ask(owner, asked, session.id, sent)
        data = answered(response, api, version)
        if data is None:
            if response.error_code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return None
            raise Unanswered(response.error_code)
        if len(data) > LARGE_BYTES:
            return await threads.run(decoded, api, data, version)
        return decoded(api, data, version)

    def _tell_loss(self, owner: int, connection: int) -> None:
        """Tell a node that a client of which it knows is gone; it knows by itself when this node is."""
        told = envelope.Request(request_data=b"", request_principal=None, client_host_address=b"")
        told.connection, told.is_lost = connection, True

        async def tell() -> None:
            with suppress(Unreachable, TimeoutError):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._peers.ask(owner, told, connection, lambda answer: None)

        telling = asyncio.get_running_loop().create_task(tell(), name="tell a lost connection")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)


def _unreachable(api: Api, request: Any, error: ErrorCode, version: int) -> Any:
    """The answer to a part of a request whose owner cannot be asked."""
    answer = api.failure(request, error, "", version)
    if answer is None:
        raise KafkaError(error)
    return answer


def _give_up(answer: "asyncio.Future[bytes]") -> None:
    answer.cancel()
