"""Several listeners of one node: what is each one's, and what they share."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from bridge.apis import api_versions
from bridge.config import Settings
from bridge.connection.listeners.client_listeners import ClientListeners
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.telemetry.metrics import Metrics
from tests.connection.harness import ECHO, Client, Request, Response, request

MAPPED = {"listeners": "A://127.0.0.1:0,B://127.0.0.1:0", "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"}


async def _echo(request: Request, broker: Broker, session: Session) -> Response:
    return Response(number=session.id, data=session.listener.encode())


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[ClientListeners]:
    metrics, none = Metrics(), cast(Any, None)
    echo = Api(
        key=ECHO,
        name="Echo",
        min_version=0,
        max_version=0,
        flexible=None,
        handle=_echo,
        request=Request,
        response=Response,
        rights=NOTHING,
    )
    broker = Broker(settings, none, none, metrics, {ECHO: echo, api_versions.KEY: api_versions.API}, none, none, none)
    listeners = ClientListeners(settings, metrics, {}, {})
    listeners.open()
    listeners.serve(broker)
    try:
        yield listeners
    finally:
        listeners.leave_shared()
        listeners.close()
        await listeners.drain(0.01)


@asynccontextmanager
async def client(listeners: ClientListeners, name: str) -> AsyncIterator[Client]:
    made = Client(*await asyncio.open_connection("127.0.0.1", listeners.ports[name]))
    try:
        yield made
    finally:
        await made.close()


async def asked(one: Client) -> Response:
    one.send(request(ECHO, 1))
    return await one.receive()


async def test_a_client_is_known_by_its_listener() -> None:
    async with serving(Settings().with_values(kafka=MAPPED)) as listeners:
        assert len(set(listeners.ports.values())) == 2
        async with client(listeners, "A") as one, client(listeners, "B") as other:
            first, second = await asked(one), await asked(other)
    assert (first.data, second.data) == (b"A", b"B")
    assert first.number != second.number, "connections of one process have one numbering"


async def test_a_limit_of_the_process_counts_all_and_one_of_a_listener_its_own() -> None:
    settings = Settings().with_values(
        kafka={**MAPPED, "max_connections_per_ip": 3}, listener={"A": {"max_connections": 1}}
    )
    async with serving(settings) as listeners, client(listeners, "A") as first:
        await asked(first)
        async with client(listeners, "A") as refused:
            assert await refused.closed() == b""
        async with client(listeners, "B") as second, client(listeners, "B") as third:
            await asked(second)
            await asked(third)
            async with client(listeners, "B") as refused:
                assert await refused.closed() == b""


async def test_one_too_many_is_closed_as_it_comes_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings().with_values(kafka={**MAPPED, "max_connections_per_ip": 1})
    async with serving(settings) as listeners, client(listeners, "A") as first:
        await asked(first)
        for _ in range(3):
            async with client(listeners, "B") as refused:
                assert await refused.closed() == b""
        metrics = listeners._metrics
        assert (metrics.refusals["too_many_connections"].value, metrics.connections_accepted.value) == (3, 1)
        await asked(first)
    told = [record.__dict__["fields"] for record in caplog.records if record.message == "! refused"]
    assert told == [{"listener": "B", "peer": "127.0.0.1", "reason": "too_many_connections"}] * 3


async def test_turned_away_are_the_clients_of_all() -> None:
    async with (
        serving(Settings().with_values(kafka=MAPPED)) as listeners,
        client(listeners, "A") as one,
        client(listeners, "B") as other,
    ):
        await asked(one)
        await asked(other)
        listeners.turn_away()
        assert await one.closed() == await other.closed() == b""


@pytest.mark.parametrize(
    ("host", "allowed", "warned"),
    [("0.0.0.0", False, 1), ("0.0.0.0", True, 0), ("127.0.0.1", False, 0)],  # noqa: S104
)
async def test_a_listener_that_others_reach_without_a_login_warns(
    host: str, allowed: bool, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings = Settings().with_values(
        kafka={"listen": f"{host}:0", "advertised": "127.0.0.1:1"}, listener={"PLAINTEXT": {"allow_anonymous": allowed}}
    )
    async with serving(settings):
        assert sum("clients that reach this listener" in record.message for record in caplog.records) == warned
