"""Clients of the harness that log in, and what a listener is given for them."""

from secrets import token_hex
from typing import Any

from bridge.apis import api_versions, sasl_authenticate, sasl_handshake
from bridge.connection.listeners.listener import Logins
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from bridge.security.sasl.mechanism import Mechanism
from bridge.security.sasl.passwords import StoredPasswords
from bridge.security.sasl.plain import Plain
from bridge.security.sasl.scram import Scram
from tests.apis.wire import frame
from tests.connection.harness import ECHO, Bench, Client, request
from tests.security.users import DECOYS, KEY, Users, at_once

USERS = Users.of({"alice": "wonder land", "bob": "builder"})


def logins(max_session_ms: int = 0) -> Logins:
    passwords = StoredPasswords(USERS, DECOYS, at_once, KEY)
    scrams = [Scram(name, USERS, DECOYS, token_hex) for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    mechanisms: list[Mechanism] = [Plain(passwords), *scrams]
    return Logins({mechanism.name: mechanism for mechanism in mechanisms}, max_session_ms)


def plain(name: str, password: str) -> bytes:
    return f"\0{name}\0{password}".encode()


async def asked(client: Client, api: Api, message_: Any, version: int) -> Any:
    client.send(frame(api, message_, version))
    body = await client.receive_frame()
    flexible = api.is_flexible(version)
    return message.decode(api.response, body[5 if flexible and api is not api_versions.API else 4 :], version, flexible)


async def choose(client: Client, mechanism: str, version: int = 1) -> Any:
    return await asked(client, sasl_handshake.API, sasl_handshake.Request(mechanism=mechanism), version)


async def prove(client: Client, data: bytes, version: int = 2) -> Any:
    return await asked(client, sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=data), version)


async def log_in(client: Client, name: str = "alice", password: str = "wonder land", version: int = 2) -> Any:  # noqa: S107
    assert (await choose(client, "PLAIN")).error_code == ErrorCode.NONE
    return await prove(client, plain(name, password), version)


async def echoes(client: Client) -> bool:
    client.send(request(ECHO, 1))
    return (await client.receive()).number == 1


async def refused(bench: Bench, client: Client, reason: str) -> None:
    assert await client.closed() == b""
    assert bench.metrics.refusals[reason].value == 1
