"""Users for tests of log-in, and clients that speak SCRAM."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from scramp import ScramClient

from bridge.security.sasl.credentials import (
    SCRAM_HASHES,
    Iterations,
    ScramCredential,
    credential_of,
    iterations_of,
    salted_password,
)
from bridge.security.sasl.decoys import Decoys
from bridge.security.sasl.mechanism import Challenge, Done, Exchange, Failed, Mechanism, Step

NOW = 1_800_000_000.0
SALT = b"salt-of-all-users"
DECOYS = Decoys(b"a secret of all nodes")
KEY = b"a key of one process"


async def at_once(work: Callable[[], bool]) -> bool:
    return work()


def credential(mechanism: str, password: str, iterations: int = 4096, salt: bytes = SALT) -> ScramCredential:
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


class Users:
    """Credentials in memory; `asked` are the names that were asked for."""

    def __init__(self, *credentials: tuple[str, ScramCredential]) -> None:
        self.credentials = {(kept.mechanism, name): kept for name, kept in credentials}
        self.asked: list[str] = []

    @classmethod
    def of(cls, passwords: Mapping[str, str], mechanisms: Iterable[str] = SCRAM_HASHES) -> Users:
        return cls(*((name, credential(m, word)) for name, word in passwords.items() for m in mechanisms))

    async def find(self, mechanism: str, name: str) -> ScramCredential | None:
        self.asked.append(name)
        return self.credentials.get((mechanism, name))

    def iterations(self, mechanism: str) -> Iterations | None:
        return iterations_of(self.credentials.values()).get(mechanism)


class Client(Protocol):
    """A client's half of a SCRAM exchange."""

    def first(self) -> bytes: ...

    def final(self, server_first: bytes) -> bytes: ...

    def check(self, server_final: bytes) -> None:
        """Raises if the server has not shown that it knows the password."""


class Scramp:
    """scramp's client."""

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        self._client = ScramClient([mechanism], name, password)

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def final(self, server_first: bytes) -> bytes:
        self._client.set_server_first(server_first.decode())
        return str(self._client.get_client_final()).encode()

    def check(self, server_final: bytes) -> None:
        self._client.set_server_final(server_final.decode())


class Written:
    """A client that says whatever it is told to, with a proof of just that."""

    def __init__(
        self,
        mechanism: str,
        name: str,
        password: str,
        *,
        header: str = "n,,",
        repeated: str | None = None,
        nonce: Callable[[str], str] = str,
    ) -> None:
        """`repeated`: the header in the last message. `nonce`: makes the last message's nonce of the server's."""
        self._hash = SCRAM_HASHES[mechanism]
        self._bare = f"n={name},r=client-nonce"
        self._password = password.encode()
        self._header = header
        self._repeated = header if repeated is None else repeated
        self._nonce = nonce
        self._server_key_and_message = (b"", b"")

    def first(self) -> bytes:
        return f"{self._header}{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        nonce, salt, iterations = (part[2:] for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, base64.b64decode(salt), int(iterations))
        without_proof = f"c={base64.b64encode(self._repeated.encode()).decode()},r={self._nonce(nonce)}"
        message = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, key).digest(), message, self._hash)
        self._server_key_and_message = hmac.digest(salted, b"Server Key", self._hash), message
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        key, message = self._server_key_and_message
        signature = base64.b64encode(hmac.digest(key, message, self._hash))
        assert server_final == b"v=" + signature


async def log_in(mechanism: Mechanism, client: Client) -> Done | Failed:
    """How the exchange ends; the client has checked the server where it is let in."""
    exchange = mechanism.begin()
    answer = await exchange.step(client.first(), NOW)
    if isinstance(answer, Challenge):
        answer = await exchange.step(client.final(answer.data), NOW)
    assert not isinstance(answer, Challenge)
    if isinstance(answer, Done):
        client.check(answer.data)
    return answer


def steps(exchange: Exchange, *messages: bytes) -> list[Step]:
    """What each message leads to, for tests without an event loop."""

    async def take() -> list[Step]:
        return [await exchange.step(message, NOW) for message in messages]

    return asyncio.run(take())
