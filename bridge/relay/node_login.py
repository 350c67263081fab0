"""How nodes prove to each other that they have the secret of their cluster: by SCRAM, so each knows it of the other."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any, Final

from bridge.apis import sasl_authenticate, sasl_handshake
from bridge.connection.listeners.listener import Logins
from bridge.errors import BridgeError, StartupError
from bridge.kafka import frames, message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import DecodeError
from bridge.requests.api import Api
from bridge.security.sasl.credentials import (
    MIN_ITERATIONS,
    Iterations,
    ScramCredential,
    credential_of,
    iterations_of,
    salted_password,
)
from bridge.security.sasl.decoys import Decoys
from bridge.security.sasl.scram import Scram
from bridge.security.sasl.scram_messages import ScramClient, ScramError

_NAME: Final = "node"
_MECHANISM: Final = "SCRAM-SHA-256"
_MIN_BYTES: Final = 16
_MAX_ANSWER_BYTES: Final = 64 * 1024


class NotProven(BridgeError):
    """The other node does not have the secret, or does not say so as it should."""


class NodeSecret:
    """The secret of a cluster's nodes."""

    def __init__(self, file: str) -> None:
        """StartupError where the file has none."""
        try:
            self._secret = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"cluster.internal_secret_file = {file}: {error}") from None
        if len(self._secret) < _MIN_BYTES or not self._secret.isascii() or not self._secret.isprintable():
            raise StartupError(
                f"cluster.internal_secret_file = {file}: it has to hold at least {_MIN_BYTES} printable characters"
            )

    def __repr__(self) -> str:
        return "NodeSecret()"

    def logins(self) -> Logins:
        """By which other nodes log in here."""
        salt = os.urandom(24)
        salted = salted_password(_MECHANISM, self._secret.encode(), salt, MIN_ITERATIONS)
        known = _OneNode(credential_of(_MECHANISM, salted, salt, MIN_ITERATIONS))
        return Logins({_MECHANISM: Scram(_MECHANISM, known, Decoys(os.urandom(32)), secrets.token_hex)})

    async def prove(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Log in to another node, and see that it has the secret, too; NotProven."""
        try:
            chosen = sasl_handshake.Request(mechanism=_MECHANISM)
            answer = await _asked(reader, writer, sasl_handshake.API, chosen, 1)
            if answer.error_code != ErrorCode.NONE:
                raise NotProven("it asks for no secret")
            client = ScramClient(_MECHANISM, _NAME, self._secret, secrets.token_hex())
            challenge = await _stepped(reader, writer, client.first())
            client.check(await _stepped(reader, writer, client.final(challenge)))
        except (ScramError, DecodeError, EOFError) as error:
            raise NotProven(str(error) or type(error).__name__) from None


class _OneNode:
    """The credential that all nodes share."""

    def __init__(self, credential: ScramCredential) -> None:
        self._credential = credential

    async def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """It, by its name."""
        return self._credential if (mechanism, name) == (_MECHANISM, _NAME) else None

    def iterations(self, mechanism: str) -> Iterations | None:
        """Its own."""
        return iterations_of((self._credential,)).get(mechanism)


async def _stepped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: str) -> str:
    request = sasl_authenticate.Request(auth_bytes=said.encode())
    answer = await _asked(reader, writer, sasl_authenticate.API, request, 2)
    if answer.error_code != ErrorCode.NONE:
        raise NotProven("it has another secret")
    return bytes(answer.auth_bytes).decode(errors="replace")


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api: Api, request: object, version: int
) -> Any:
    flexible = api.is_flexible(version)
    body = message.encode(request, version, flexible)
    writer.writelines(frames.request(api.key, version, 0, "", flexible, body))
    size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 0 < size <= _MAX_ANSWER_BYTES:
        raise NotProven(f"an answer of {size} bytes")
    payload = await reader.readexactly(size)
    return message.decode(api.response, memoryview(payload)[5 if flexible else 4 :], version, flexible)
