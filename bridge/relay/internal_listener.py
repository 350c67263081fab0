"""The listener that other nodes connect to: it takes Envelopes, and answers each when it can, in any order.

A node passes on the requests of all its clients over few connections. One that waits, as a JoinGroup does, must not
hold up the others. The order of one client's requests is kept by the node that it is connected to: that sends a request
when the one before is answered. An Envelope without a principal is a node's own question: it may ask what its part of a
client's request needs, and the client's rights were checked there.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, cast

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    sasl_authenticate,
    sasl_handshake,
    write_txn_markers,
)
from bridge.config import INTERNAL
from bridge.connection import Budget, Listener, SharedResources
from bridge.connection.environment import TenantNamespaces
from bridge.connection.parts import Refused
from bridge.connection.requests import identify, perform
from bridge.connection.responses import EncodedResponse, InFlightRequest, PendingResponseBytes, encode, is_long
from bridge.connection.runner import RequestRunner
from bridge.connection.tenant_runner import NamespaceUnavailable
from bridge.errors import KafkaError, Unanswered
from bridge.kafka import envelope
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import DecodeError
from bridge.relay.node_login import NodeSecret
from bridge.requests import share_states
from bridge.requests.api import MAX_CONTROL_BYTES, Api, Broker
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.runtime.futures import loop_time
from bridge.runtime.scheduler import Metered, SlicedCalls
from bridge.security.principal import NODE, Principal
from bridge.security.sasl.failures import LoginFailures
from bridge.security.sasl.login import Stage
from bridge.telemetry import log
from bridge.telemetry.instruments import Gauge
from bridge.telemetry.metrics import Metrics

_log = log.get(__name__)

_HEADERS: Final = 64 * 1024
"""More than the headers of an Envelope and of what is in it."""
_MEMORY: Final = 64 * 1024 * 1024
"""Of requests from other nodes. Not part of that for clients: two nodes that are full of requests for each other would
wait for each other."""

_MAX_CONNECTIONS: Final = 100_000
"""Of clients that speak of transactions at other nodes: some hundred bytes each."""
_BETWEEN_NODES: Final = (add_partitions_to_txn.API.key, add_offsets_to_txn.API.key, write_txn_markers.API.key)
"""What nodes ask for themselves, and clients may, too."""


async def _handled_by_runner(request: Any, broker: Broker, session: Session) -> Any:
    raise NotImplementedError


ENVELOPE: Final = Api(
    key=envelope.KEY,
    name="Envelope",
    min_version=envelope.VERSION,
    max_version=envelope.OF_A_NAMESPACE,
    flexible=envelope.VERSION,
    handle=_handled_by_runner,
    request=envelope.Request,
    response=envelope.Response,
    rights=NOTHING,
    max_request_bytes=MAX_CONTROL_BYTES + _HEADERS,
)


class DistantClients:
    """Clients that are connected to other nodes, and have something here that ends with their connection.

    It ends when the other node says so, or when the link by which the requests have come is lost.
    """

    def __init__(self, departures: SlicedCalls) -> None:
        self._departures = departures
        self._sessions: dict[int, dict[int, tuple[Session, int]]] = {}
        """By link and the client's connection, and how many requests of it go on."""

    @contextmanager
    def asking(self, link: Session, connection: int, session: Session) -> Iterator[Session]:
        """The client's session while a request of it goes on; `session`: that, if it is the first one."""
        known = self._sessions.get(link.id)
        if known is None:
            known = {}
            if link.on_close(DistantClients, lambda: self._link_lost(link.id)):
                self._sessions[link.id] = known
            else:
                session.closed()
        before, count = known.get(connection, (session, 0))
        before.principal = session.principal  # it may have logged in again
        known[connection] = before, count + 1
        try:
            yield before
        finally:
            _, count = known.get(connection, (before, 1))
            known[connection] = before, count - 1
            if count == 1 and not before.close_actions:
                del known[connection]

    def lost(self, link: int, connection: int) -> None:
        """The client is gone."""
        session, _ = self._sessions.get(link, {}).pop(connection, (None, 0))
        if session is not None:
            session.closed()

    def _link_lost(self, link: int) -> None:
        for session, _ in self._sessions.pop(link, {}).values():
            self._departures.call(session.closed)


class EnvelopeRunner(RequestRunner):
    """Runs what is in the Envelopes of one connection side by side."""

    __slots__ = ()

    def flush(self) -> None:
        """Hand over all answers there are: the other node knows them by their numbers."""
        if self.in_flight and self.in_flight[0].response is None:
            self.in_flight = deque(sorted(self.in_flight, key=lambda request: request.response is None))
        super().flush()

    def _may_begin(self) -> bool:
        return False  # an Envelope is followed, whatever is in it

    async def _run(self, request: InFlightRequest) -> None:
        identify(request, self._broker, self._session)
        if request.api is ENVELOPE:
            self._follow(request, Metered(self._answer(request), self._share), None)
            return
        result = await perform(request, self._broker, self._session, self._environment.large, self._intake.release)
        self._finish(request, result)
        login = self._session.login
        if login is not None and login.stage is Stage.REFUSED:
            self._connection.close_soon()

    async def _answer(self, request: InFlightRequest) -> envelope.Response:
        body, request.body = cast(memoryview, request.body), None
        environment = cast(InternalListener, self._environment)
        try:
            outer = ENVELOPE.decode(body, request.version)
            if outer.is_lost:
                environment.clients.lost(self._session.id, outer.connection)
                return envelope.Response(error_code=ErrorCode.NONE)
            session = self._session_of(outer)
            if outer.connected_ms < 0:
                return await self._answer_within(request, outer, session)
            with environment.clients.asking(self._session, outer.connection, session) as session:
                return await self._answer_within(request, outer, session)
        except (Refused, DecodeError) as error:
            unsupported = isinstance(error, Refused) and error.reason in ("unknown_api", "unsupported_version")
            code = ErrorCode.UNSUPPORTED_VERSION if unsupported else ErrorCode.INVALID_REQUEST
            return envelope.Response(error_code=code)
        except KafkaError as error:  # the version has no place for it, or the client's connection is to be closed
            return envelope.Response(error_code=error.code)
        except NamespaceUnavailable as error:
            _log.warning("! not served for another node", extra={"error": error})
            return envelope.Response(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except Exception:  # noqa: BLE001 - the other requests of this connection go on
            _log.exception("! request failed", extra={"listener": self._session.listener})
            return envelope.Response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    def _session_of(self, outer: envelope.Request) -> Session:
        """The client's, as far as it is told."""
        session = Session(
            principal=_principal(outer.request_principal),
            id=self._session.id,
            peer=envelope.decode_host(outer.client_host_address) + ":0",
            listener=self._session.listener,
            remaining_response_bytes=self._session.remaining_response_bytes,
            reserve_response_bytes=self._session.reserve_response_bytes,
        )
        if outer.connected_ms >= 0:
            environment = cast(InternalListener, self._environment)
            session.id, session.connected_at = outer.connection, environment.connected_at(outer)
        return session

    async def _answer_within(
        self, request: InFlightRequest, outer: envelope.Request, session: Session
    ) -> envelope.Response:
        environment = cast(InternalListener, self._environment)
        inner = InFlightRequest(memoryview(outer.request_data), request.received)
        broker = await environment.broker_for(session.principal, outer.namespace)
        return await self._inner_answer(request, inner, session, broker)

    async def _inner_answer(
        self, request: InFlightRequest, inner: InFlightRequest, session: Session, broker: Broker
    ) -> envelope.Response:
        environment = cast(InternalListener, self._environment)
        identify(inner, broker, session)

        def release(count: int) -> None:
            request.size -= count
            self._intake.release(count)

        try:
            result = await perform(inner, broker, session, environment.large, release)
            if isinstance(result, DeferredResponse):
                answer = await result.future
                result = answer if result.make is None else result.make(answer)
        except Unanswered:
            raise
        except KafkaError as error:
            result = inner.api.failure(None, error.code, error.message, inner.version)
            if result is None:
                raise
        if is_long(result):
            encoded: EncodedResponse = await broker.cpu_thread.run(encode, inner, result, pausing=False)
        else:
            encoded = encode(inner, result, pausing=False)
        for code in encoded.codes:
            self._metrics.api(inner.api.key).error(code)
        return envelope.Response(response_data=_without_length(encoded.buffers), error_code=ErrorCode.NONE)


class InternalListener(Listener):
    """Makes the protocol of each socket that another node has connected."""

    runner = EnvelopeRunner

    def __init__(
        self,
        owner: Broker,
        pending_bytes: PendingResponseBytes,
        secret: NodeSecret | None = None,
        clients_work_in: TenantNamespaces | None = None,
        for_nodes: Sequence[Api] = (),
    ) -> None:
        """`owner`: what the requests within Envelopes are given; `secret`: what other nodes have to have;
        `clients_work_in`: the namespaces beside the bridge's own; `for_nodes`: what nodes may ask, and nobody else."""
        kafka = owner.settings.kafka
        kafka = replace(
            kafka,
            max_request_bytes=ENVELOPE.max_request_bytes,
            memory_budget_bytes=max(kafka.memory_budget_bytes, ENVELOPE.max_request_bytes),
            max_in_flight_requests=kafka.max_connections + 1,  # each client of the other node waits for one at most
        )
        apis = {api_versions.KEY: api_versions.API, envelope.KEY: ENVELOPE}
        if secret is not None:
            apis |= {api.key: api for api in (sasl_handshake.API, sasl_authenticate.API)}
        failures = LoginFailures(kafka.max_failed_logins_per_ip_per_second)  # clients' at a node's address say nothing
        settings = replace(owner.settings, kafka=kafka)
        broker = replace(owner, settings=settings, apis=apis, login_failures=failures)
        shared = SharedResources(kafka, Metrics())  # not counted with those of clients
        shared.budget, shared.pending_bytes = Budget(_MEMORY, Gauge()), pending_bytes
        super().__init__(broker, shared, INTERNAL, logins=None if secret is None else secret.logins())
        self._own = owner
        self._brokers: dict[tuple[str, bool], Broker] = {}
        self._clients_work_in = clients_work_in
        self.clients = DistantClients(shared.departures)
        self._for_nodes = (*share_states.APIS, *for_nodes)
        self._connected_at: OrderedDict[tuple[int, int], float] = OrderedDict()
        """Of clients' connections to other nodes, as told when a request of theirs came here first."""

    def connected_at(self, told: envelope.Request) -> float:
        """When a client has connected to the node that has sent this, by this node's loop's time.

        As told first: what has lain between the two nodes for a while must not look like a newer connection.
        """
        connection = told.sender, told.connection
        known = self._connected_at.setdefault(connection, loop_time() - told.connected_ms / 1000)
        self._connected_at.move_to_end(connection)
        if len(self._connected_at) > _MAX_CONNECTIONS:
            self._connected_at.popitem(last=False)
        return known

    async def broker_for(self, principal: Principal, namespace: str) -> Broker:
        """What the requests of a client of a namespace are given, or those of a node; NamespaceUnavailable.

        For clients there are the APIs that have an owner, and no others; none where they know each node's address.
        """
        place = namespace, principal is NODE
        broker = self._brokers.get(place)
        if broker is None:
            whole = await self._in_namespace(namespace) if namespace else self._own
            if principal is NODE:
                apis = {key: whole.apis[key] for key in _BETWEEN_NODES}
                apis |= {api.key: api for api in self._for_nodes}
                broker = replace(whole, apis=apis, authorization=None)
            else:
                relayed = whole.apis.items() if whole.settings.cluster.is_single else ()
                broker = replace(whole, apis={key: api for key, api in relayed if api.route is not None})
            self._brokers[place] = broker
        return broker

    async def _in_namespace(self, namespace: str) -> Broker:
        if self._clients_work_in is None:
            raise NamespaceUnavailable("this node has no rules of tenants")
        return await self._clients_work_in.for_nodes(namespace)


def _principal(encoded: bytes | None) -> Principal:
    if encoded is None:
        return NODE
    told = envelope.decode_principal(bytes(encoded))
    return Principal(told.type, told.name)


def _without_length(buffers: Sequence[Any]) -> bytes:
    return b"".join(buffers)[4:]
