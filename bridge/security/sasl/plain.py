"""PLAIN (RFC 4616) as Kafka's PlainSaslServer serves it."""

from typing import Final, NamedTuple

from bridge.security.names import MAX_NAME_BYTES, MAX_PASSWORD_BYTES, prepared_name
from bridge.security.sasl.credentials import CredentialsUnavailable, Passwords
from bridge.security.sasl.mechanism import Done, Failed, Step

MAX_MESSAGE_BYTES: Final = 2 * MAX_NAME_BYTES + MAX_PASSWORD_BYTES + 2


class _Message(NamedTuple):
    name: str
    password: str


class Plain:
    """Name and password in one message. Without TLS they can be read on the way."""

    name: Final = "PLAIN"

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords

    def begin(self) -> "PlainExchange":
        """A new log-in."""
        return PlainExchange(self._passwords)


class PlainExchange:
    """A log-in by PLAIN: one message decides."""

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._over = False

    async def step(self, data: bytes, now: float) -> Step:
        """Whether the name and the password are right."""
        if self._over:
            return Failed("the exchange is over")
        self._over = True
        message = _read(data)
        if isinstance(message, Failed):
            return message
        try:
            login = await self._passwords.check(message.name, message.password, now)
        except CredentialsUnavailable as error:
            return Failed(str(error), message.name, retriable=True)
        if login is None:
            return Failed("no such user, or a wrong password", message.name)
        user_name = None if login.token is None else message.name  # the token says who it is
        return Done(login.principal, login.expires_at, token=login.token, user_name=user_name)


def _read(data: bytes) -> _Message | Failed:
    """`[authzid] NUL authcid NUL passwd`."""
    if len(data) > MAX_MESSAGE_BYTES:
        return Failed("the message is too long")
    try:
        parts = data.decode().split("\0")
    except UnicodeDecodeError:
        return Failed("the message is not UTF-8")
    if len(parts) != 3:
        return Failed(f"the message has {len(parts)} parts, not 3")
    authorization_id, sent_name, password = parts
    if not sent_name or not password:
        return Failed("the user name or the password is empty")
    name = prepared_name(sent_name)
    if name is None:
        return Failed("the user name is too long, or has prohibited characters")
    if authorization_id not in ("", sent_name):
        return Failed("the authorization id is not the user name", name)
    if len(password.encode()) > MAX_PASSWORD_BYTES:
        return Failed("the password is too long", name)
    return _Message(name, password)
