"""Connections whose clients work in namespaces, over real sockets: nothing is handled before the namespace is known."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import Any

import pytest

from bridge.apis import api_versions
from bridge.config import TenantSettings
from bridge.connection.tenant_runner import NamespaceUnavailable
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.security.tenants import Tenants
from tests.connection.harness import ECHO, POLL, MakeNamespaces, Response, connected, serving
from tests.connection.logging_in import asked, log_in, logins, refused
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(30)

RULES = """
principal User:alice -> t/alice
client_id a* -> t/a
client_id b -> t/b
client_id gone -> t/gone
"""


class Gated:
    """Namespaces that open when they are let."""

    def __init__(self, broker: Broker) -> None:
        self.rules = Tenants(TenantSettings(rules=RULES), "public/default")
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._broker = broker

    async def for_clients(self, namespace: str, *, administers: bool) -> Broker:
        assert not administers
        return await self.for_nodes(namespace)

    async def for_nodes(self, namespace: str) -> Broker:
        self.asked.append(namespace)
        await self.gate.wait()
        if namespace == "t/gone":
            raise NamespaceUnavailable("there is none")

        async def handle(request: Any, broker: Broker, session: Session) -> Response:
            return Response(number=request.number, data=namespace.encode())

        apis = self._broker.apis
        return replace(self._broker, apis={**apis, ECHO: replace(apis[ECHO], handle=handle)})


def noted(made: list[Gated]) -> MakeNamespaces:
    """What a bench is given; `made` has it then."""

    def make(broker: Broker) -> Gated:
        made.append(Gated(broker))
        return made[-1]

    return make


def request_of(client_id: str, number: int = 1, key: int = ECHO) -> bytes:
    name = client_id.encode()
    body = struct.pack(">hhih", key, 0, number, len(name)) + name + struct.pack(">ii", number, 0)
    return struct.pack(">i", len(body)) + body


async def test_the_first_request_decides_and_later_client_ids_change_nothing() -> None:
    made: list[Gated] = []
    async with serving(namespaces=noted(made)) as bench:
        async with connected(bench) as client:
            client.send(*(request_of(name, number) for number, name in enumerate(("a1", "b", "gone", ""))))
            assert [(await client.receive()).data for _ in range(4)] == [b"t/a"] * 4
        async with connected(bench) as client:
            client.send(request_of("b"))
            assert (await client.receive()).data == b"t/b"
        assert made[0].asked == ["t/a", "t/b"]


async def test_requests_wait_in_their_order_while_a_namespace_is_opened() -> None:
    made: list[Gated] = []
    async with serving(namespaces=noted(made)) as bench:
        (gated,) = made
        gated.gate.clear()
        async with connected(bench) as client, connected(bench) as other:
            client.send(*(request_of("a1", number) for number in range(3)))
            await until(lambda: gated.asked == ["t/a"])
            answer = await asked(other, api_versions.API, api_versions.Request(), 0)
            assert answer.error_code == ErrorCode.NONE  # which needs no namespace
            assert len(answer.api_keys) == len(bench.listener.broker.apis)
            gated.gate.set()
            assert [(await client.receive()).number for _ in range(3)] == [0, 1, 2]


async def test_a_client_that_hangs_up_meanwhile_leaves_nothing_behind() -> None:
    made: list[Gated] = []
    async with serving(namespaces=noted(made)) as bench:
        (gated,) = made
        gated.gate.clear()
        async with connected(bench) as client:
            client.send(request_of("a1", key=POLL))  # which changes nothing
            await until(lambda: gated.asked == ["t/a"])
            client.reset()
            await until(lambda: not bench.listener._connections)
        assert bench.budget.held == 0
        assert bench.requests == []


@pytest.mark.parametrize(
    ("name", "reason"), [("c", "no_namespace"), ("", "no_namespace"), ("gone", "namespace_unavailable")]
)
async def test_a_client_of_no_namespace_is_closed(name: str, reason: str) -> None:
    async with serving(namespaces=Gated) as bench, connected(bench) as client:
        client.send(request_of(name))
        await refused(bench, client, reason)
        assert bench.requests == []


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack(">i", 4) + bytes(4), "bad_header"),
        (struct.pack(">ihhih", 10, 999, 0, 1, 0), "unknown_api"),
        (struct.pack(">ihhih", 10, ECHO, 7, 1, 0), "unsupported_version"),
        (struct.pack(">ihhih", 10, ECHO, 0, 1, 100), "bad_header"),
        (struct.pack(">ihhih", 10, ECHO, 0, 1, -5), "bad_header"),
    ],
)
async def test_what_is_no_request_is_refused_as_ever(frame: bytes, reason: str) -> None:
    async with serving(namespaces=Gated) as bench, connected(bench) as client:
        client.send(frame)
        await refused(bench, client, reason)


async def test_who_has_logged_in_is_in_the_principal_s_namespace() -> None:
    made: list[Gated] = []
    async with serving(logins=logins(600_000), namespaces=noted(made)) as bench:
        async with connected(bench) as client:
            assert (await log_in(client)).error_code == ErrorCode.NONE
            assert made[0].asked == []
            client.send(request_of("b"))  # what it says of itself does not count
            assert (await client.receive()).data == b"t/alice"
            assert (await log_in(client)).error_code == ErrorCode.NONE
            client.send(request_of("a1"))
            assert (await client.receive()).data == b"t/alice"
        async with connected(bench) as client:
            assert (await log_in(client, "bob", "builder")).error_code == ErrorCode.NONE
            client.send(request_of("b"))
            await refused(bench, client, "no_namespace")
        assert made[0].asked == ["t/alice"]


async def test_before_the_log_in_nothing_is_opened() -> None:
    made: list[Gated] = []
    async with (
        serving(logins=logins(), namespaces=noted(made)) as bench,
        connected(bench) as client,
    ):
        client.send(request_of("a1"))
        await refused(bench, client, "not_logged_in")
        assert made[0].asked == []
