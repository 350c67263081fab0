"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka serves them: without channel binding.

scramp has the protocol: messages, nonces, proofs. This module finds the credential, has an unknown user go through the
same exchange, and adds Kafka's rule for authorization ids: one that equals the user name is allowed. It also takes the
last message of older librdkafkas. Refused are all other authorization ids, and extensions of Kafka's own, of which
delegation tokens (`tokenauth`) are one.

A module that imports this one imports scramp, which takes some 50 ms.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from scramp import ScramException, ScramMechanism

from bridge.security.credentials import CredentialsUnavailable, ScramCredentials
from bridge.security.decoys import Decoys
from bridge.security.names import MAX_NAME_BYTES
from bridge.security.principal import user
from bridge.security.sasl import Challenge, Done, Failed, Step

MAX_MESSAGE_BYTES: Final = 4096
_PLACEHOLDER: Final = (bytes(12), b"", b"", 4096)
Nonce = Callable[[], str]


class Scram:
    """One of the two mechanisms, for the users of one source."""

    def __init__(
        self, name: str, credentials: ScramCredentials, decoys: Decoys, server_nonce: Nonce | None = None
    ) -> None:
        """`server_nonce` is for tests; without it scramp draws 256 random bits for each exchange."""
        self.name = name
        self.credentials = credentials
        self.decoys = decoys
        self.protocol = ScramMechanism(name)
        self._server_nonce = server_nonce

    def begin(self) -> "ScramExchange":
        """A new log-in."""
        return ScramExchange(self, self._server_nonce() if self._server_nonce else None)


class _GivenHeader:
    """The GS2 header as the client sent it, where scramp would insist on one without an authorization id."""

    def __init__(self, flag: str, authorization_id: str) -> None:
        self._header = f"{flag},{authorization_id},".encode()

    def make_cbind_input(self, _channel_binding: None) -> bytes:
        """What the client repeats in its last message."""
        return self._header


class ScramExchange:
    """client-first, server-first, client-final, server-final."""

    def __init__(self, mechanism: Scram, server_nonce: str | None) -> None:
        self._mechanism = mechanism
        self._server_nonce = server_nonce
        self._server: Any = None
        self._name: str | None = None
        self._known = False
        self._step: Callable[[str], Awaitable[Step]] = self._first

    async def step(self, data: bytes, now: float) -> Step:
        """What the client's next message leads to."""
        run, self._step = self._step, self._ended
        if len(data) > MAX_MESSAGE_BYTES:
            return self._failed("the message is too long")
        try:
            return await run(data.decode())
        except UnicodeDecodeError:
            return self._failed("the message is not UTF-8")
        except ScramException as error:
            return self._failed(str(error))
        except CredentialsUnavailable as error:
            return Failed(str(error), self._name, retriable=True)

    async def _first(self, text: str) -> Step:
        flag, _, rest = text.partition(",")
        authorization_id, _, bare = rest.partition(",")
        sent_name = bare.partition(",")[0]
        if len(sent_name) > MAX_NAME_BYTES:
            return self._failed("the user name is too long")
        if ",tokenauth=" in bare:
            return self._failed("delegation tokens are not supported")
        message = f"{flag},,{bare}"
        name = self._name = self._read_name(message)
        if authorization_id and authorization_id != f"a={sent_name[2:]}":
            return self._failed("the authorization id is not the user name")
        self._server = await self._make_server(name)
        self._server.set_client_first(message)
        if authorization_id:
            self._server.gs2_header = _GivenHeader(flag, authorization_id)
        self._step = self._final
        return Challenge(self._server.get_server_first().encode())

    def _read_name(self, message: str) -> str:
        """The prepared name of a client-first message. scramp asks for it before a look-up could be awaited."""
        asked: list[str] = []

        def lookup(name: str) -> tuple[bytes, bytes, bytes, int]:
            asked.append(name)
            return _PLACEHOLDER

        self._mechanism.protocol.make_server(lookup, s_nonce="unused").set_client_first(message)
        return asked[0]

    async def _make_server(self, name: str) -> Any:
        """The decoy is made for each name, known or not: making it takes time."""
        mechanism = self._mechanism
        credentials = mechanism.credentials
        found = await credentials.find(mechanism.name, name)
        decoy = mechanism.decoys.credential(mechanism.name, name, credentials.iterations(mechanism.name))
        self._known = found is not None
        used = found or decoy
        kept = (used.salt, used.stored_key, used.server_key, used.iterations)
        return mechanism.protocol.make_server(lambda _: kept, s_nonce=self._server_nonce)

    async def _final(self, text: str) -> Step:
        self._allow_client_nonce_twice(text)
        try:
            self._server.set_client_final(text)
        except ScramException as error:
            return self._failed(str(error) if self._known else f"no such user with {self._mechanism.name}")
        if self._name is None or not self._known:
            return self._failed(f"no such user with {self._mechanism.name}")
        return Done(user(self._name), data=self._server.get_server_final().encode())

    def _allow_client_nonce_twice(self, text: str) -> None:
        """librdkafka before 2.6.1 puts its nonce once more before the server's (confluentinc/librdkafka#4895).

        Kafka 3 takes that, Kafka 4 does not. It is as good: the server's nonce is there in full, and the proof is over
        what was sent.
        """
        server = self._server
        whole, own = str(server.nonce), str(server.s_nonce)
        twice = whole.removesuffix(own) + whole
        if f",r={twice}," in text:
            server.nonce = type(server.nonce)(twice)

    async def _ended(self, _: str) -> Step:
        return self._failed("the exchange is over")

    def _failed(self, reason: str) -> Failed:
        return Failed(reason[:300], self._name)
