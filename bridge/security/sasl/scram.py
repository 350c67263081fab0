"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka serves them: without channel binding.

The messages are in `scram_messages.py`. This module finds the credential, has an unknown user go through the same
exchange, and follows Kafka in what the messages may say: an authorization id that equals the user name is allowed, and
so is the last message of older librdkafkas. Refused are all other authorization ids, and extensions of Kafka's own, of
which delegation tokens (`tokenauth`) are one.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bridge.security.names import MAX_NAME_BYTES, prepared
from bridge.security.principal import user
from bridge.security.sasl.credentials import CredentialsUnavailable, ScramCredential, ScramCredentials
from bridge.security.sasl.decoys import Decoys
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step
from bridge.security.sasl.scram_messages import ScramError, client_final, client_first, server_final, server_first

MAX_MESSAGE_BYTES: Final = 4096


class Scram:
    """SCRAM-SHA-256 or SCRAM-SHA-512, for the users of one source."""

    def __init__(
        self, name: str, credentials: ScramCredentials, decoys: Decoys, server_nonce: Callable[[], str]
    ) -> None:
        """`server_nonce` draws 256 random bits for each exchange, as text."""
        self.name = name
        self.credentials = credentials
        self.decoys = decoys
        self._server_nonce = server_nonce

    def begin(self) -> "ScramExchange":
        """A new log-in."""
        return ScramExchange(self, self._server_nonce())


class ScramExchange:
    """client-first, server-first, client-final, server-final."""

    def __init__(self, mechanism: Scram, server_nonce: str) -> None:
        self._mechanism = mechanism
        self._server_nonce = server_nonce
        self._name: str | None = None
        self._known = False
        self._credential: ScramCredential
        self._header = self._said = self._nonce = ""
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
        except ScramError as error:
            return self._failed(str(error))
        except CredentialsUnavailable as error:
            return Failed(str(error), self._name, retriable=True)

    async def _first(self, text: str) -> Step:
        if ",tokenauth=" in text:
            return self._failed("delegation tokens are not supported")
        message = client_first(text)
        if len(message.sent_name) > MAX_NAME_BYTES:
            return self._failed("the user name is too long")
        self._name = name = prepared(message.name)
        if name is None:
            return self._failed("no user can have this name")
        if message.authorization_id not in (None, message.sent_name):
            return self._failed("the authorization id is not the user name")
        self._credential = await self._find(name)
        self._header, self._nonce = message.header, message.nonce + self._server_nonce
        answer = server_first(self._nonce, self._credential)
        self._said = f"{message.bare},{answer}"
        self._step = self._final
        return Challenge(answer.encode())

    async def _find(self, name: str) -> ScramCredential:
        """The decoy is made for each name, known or not: making it takes time."""
        mechanism = self._mechanism
        found = await mechanism.credentials.find(mechanism.name, name)
        decoy = mechanism.decoys.credential(mechanism.name, name, mechanism.credentials.iterations(mechanism.name))
        self._known = found is not None
        return found or decoy

    async def _final(self, text: str) -> Step:
        message = client_final(text)
        if message.header != self._header.encode():
            return self._failed("the channel bindings differ")
        if message.nonce not in (self._nonce, self._client_nonce_twice()):
            return self._failed("the nonce is another one")
        try:
            answer = server_final(self._credential, f"{self._said},{message.unproven}", message.proof)
        except ScramError as error:
            return self._failed(str(error) if self._known else f"no such user with {self._mechanism.name}")
        if self._name is None or not self._known:
            return self._failed(f"no such user with {self._mechanism.name}")
        return Done(user(self._name), data=answer.encode())

    def _client_nonce_twice(self) -> str:
        """librdkafka before 2.6.1 puts its nonce once more before the server's (confluentinc/librdkafka#4895).

        Kafka 3 takes that, Kafka 4 does not. It is as good: the server's nonce is there in full, and the proof is over
        what was sent.
        """
        return self._nonce.removesuffix(self._server_nonce) + self._nonce

    async def _ended(self, _: str) -> Step:
        return self._failed("the exchange is over")

    def _failed(self, reason: str) -> Failed:
        return Failed(reason[:300], self._name)
