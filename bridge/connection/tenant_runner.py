"""Runs the requests of a connection whose client works in a namespace of its own: it is found before the first one.

What a client may ask before that has no namespace: which APIs there are, and the log-in. All else is handled with what
its namespace has, from the first request to the last one. Where no tenants are set, connections have `RequestRunner`.
"""

from dataclasses import replace
from typing import Any, Final, cast

from bridge.connection.environment import Connection, Environment
from bridge.connection.intake import Intake
from bridge.connection.parts import Refused
from bridge.connection.responses import InFlightRequest, ResponseWriter
from bridge.connection.runner import RequestRunner
from bridge.connection.state import ConnectionState
from bridge.connection.straight import StraightWay
from bridge.errors import BridgeError
from bridge.kafka import frames
from bridge.kafka.primitives import DecodeError
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.security.principal import ANONYMOUS
from bridge.security.sasl.login import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from bridge.telemetry import log

_audit = log.get("bridge.audit")

_WITHOUT: Final = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class NamespaceUnavailable(BridgeError):
    """A namespace cannot be served now."""


async def _refuse(request: Any, broker: Broker, session: Session) -> Any:
    raise RuntimeError("a request of no namespace")


def without_namespace(broker: Broker) -> Broker:
    """The same APIs, of which only those that need no namespace are handled."""
    apis = {
        key: api if key in _WITHOUT else replace(api, handle=_refuse, at_once=False) for key, api in broker.apis.items()
    }
    return replace(broker, apis=apis)


class TenantRunner(RequestRunner):
    """The requests of one connection."""

    __slots__ = ("_is_inside",)

    def __init__(
        self,
        connection: Connection,
        environment: Environment,
        session: Session,
        state: ConnectionState,
        intake: Intake,
        writer: ResponseWriter,
    ) -> None:
        super().__init__(connection, environment, session, state, intake, writer)
        self._is_inside = False
        self._straight = None  # until the client's namespace is known

    def _may_begin(self) -> bool:
        return self._is_inside and super()._may_begin()

    async def _run(self, request: InFlightRequest) -> None:
        if not self._is_inside:
            await self._enter(request)
        await super()._run(request)

    async def _enter(self, request: InFlightRequest) -> None:
        """Find the namespace, unless the request needs none or is none: then the runner refuses it, or answers."""
        session = self._session
        if session.login is not None and not session.login.is_again:
            return
        frame = cast(memoryview, request.body)
        if len(frame) < frames.MIN_FRAME:
            return
        key, version, correlation_id = frames.parse_start(frame)
        api = self._broker.apis.get(key)
        if api is None or key in _WITHOUT or not api.serves(version):
            return
        try:
            client_id = frames.parse_header(frame, api.is_flexible(version)).client_id
        except DecodeError:
            return
        # it may be cancelled, or answered emptily, while the namespace is opened
        request.api, request.version, request.correlation_id = api, version, correlation_id
        self._broker = await self._found(client_id)
        self._straight = StraightWay.of(self._broker, session)
        self._is_inside = True

    async def _found(self, client_id: str) -> Broker:
        session = self._session
        namespaces = self._environment.namespaces
        assert namespaces is not None  # noqa: S101 - else there is no such runner
        is_proven = session.login is not None or session.principal != ANONYMOUS
        principal = session.principal if is_proven else None
        about = {
            "conn": session.id, "peer": session.peer, "client": client_id[:128], "listener": session.listener,
            "principal": session.principal,
        }  # fmt: skip
        user_name = None if session.login is None else session.login.user_name
        namespace = namespaces.rules.namespace(principal, session.listener, client_id, user_name)
        if namespace is None:
            _audit.warning("! client of no namespace", extra=about)
            raise Refused("no_namespace", principal=session.principal)
        try:
            administers = namespaces.rules.administers(principal, session.listener, client_id, user_name)
            broker = await namespaces.for_clients(namespace, administers=administers)
        except NamespaceUnavailable as error:
            raise Refused("namespace_unavailable", namespace=namespace, error=error) from None
        _audit.info("= namespace of a client", extra={**about, "namespace": namespace})
        return broker
