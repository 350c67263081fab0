"""OAUTHBEARER (RFC 7628) as Kafka serves it (KIP-255): the client sends a signed token.

client: n,[a=<authzid>],^Aauth=Bearer <token>^A[<extension>=<value>^A…]^A
server: nothing more if the token is valid; otherwise {"status":"invalid_token"}
client: ^A, which gets it the error that ends the log-in
"""

import re
from typing import Final, NamedTuple

from bridge.security.principal import user
from bridge.security.sasl.credentials import CredentialsUnavailable
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step
from bridge.security.tokens import MAX_TOKEN_CHARS, InvalidToken, Tokens

MAX_MESSAGE_BYTES: Final = MAX_TOKEN_CHARS + 8192
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""The same for whatever is wrong with a token."""
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE)
_HEADER: Final = re.compile(r"[ny],(?:a=((?:[^=,\x00\x01]|=2C|=3D)+))?,")


class _Message(NamedTuple):
    authorization_id: str | None
    token: str


class OAuthBearer:
    """Tokens of one issuer, or of several."""

    name: Final = "OAUTHBEARER"

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def begin(self) -> "OAuthBearerExchange":
        """A new log-in."""
        return OAuthBearerExchange(self._tokens)


class OAuthBearerExchange:
    """A log-in by token: one message decides, and the client acknowledges a refusal by another one."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._over: Failed | None = None

    async def step(self, data: bytes, now: float) -> Step:
        """Whether the token is valid, and then whose it is."""
        if self._over is not None:
            return self._over
        self._over = Failed("the exchange is over")
        message = _read(data)
        if isinstance(message, Failed):
            return message
        try:
            claims = await self._tokens.verify(message.token, now)
        except InvalidToken as error:
            self._over = Failed(str(error), error.name)
            return Challenge(INVALID_TOKEN)
        except CredentialsUnavailable as error:
            return Failed(str(error), retriable=True)
        if message.authorization_id not in (None, claims.name):
            return Failed("the authorization id is not the token's name", claims.name)
        return Done(user(claims.name), claims.expires_at, token=message.token)


def _read(data: bytes) -> _Message | Failed:
    if len(data) > MAX_MESSAGE_BYTES:
        return Failed("the message is too long")
    try:
        header, separator, rest = data.decode().partition("\x01")
    except UnicodeDecodeError:
        return Failed("the message is not UTF-8")
    parsed = _HEADER.fullmatch(header)
    if parsed is None or not separator or not rest.endswith("\x01\x01"):
        return Failed("the message is not of RFC 7628's form")
    pairs = [_PAIR.fullmatch(pair) for pair in rest[:-2].split("\x01")]
    values = {pair[1]: pair[2] for pair in pairs if pair is not None}
    if len(values) != len(pairs):  # not a pair, or a key twice
        return Failed("the message is not of RFC 7628's form")
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None:
        return Failed("the message has no bearer token")
    name = parsed[1].replace("=2C", ",").replace("=3D", "=") if parsed[1] else None
    return _Message(name, bearer[1])
