"""One connection's log-in: what CONNECT says of us, and what is said again when the broker asks for it."""

import asyncio
from collections.abc import Callable
from typing import Final

from bridge import __version__
from bridge.pulsar import commands
from bridge.pulsar.auth.credentials import Credentials
from bridge.pulsar.types import PulsarError
from bridge.telemetry import log

_CLIENT_VERSION: Final = f"pulsar-kafka-bridge-v{__version__}"
_AGAIN_SECONDS: Final = 1.0


class SessionLogin:
    """`fetch` comes before `connect`; `close` ends it."""

    def __init__(self, credentials: Credentials, original_principal: str | None = None) -> None:
        """`original_principal`: the role that these credentials speak for."""
        self._credentials = credentials
        self._original_principal = original_principal
        self._sent = b""
        self._answering: asyncio.Task[None] | None = None

    async def fetch(self) -> None:
        """Have the credentials at hand that `connect` will send; PulsarError when there are none."""
        self._sent = await self._credentials.data()

    def connect(self, proxied_broker: str | None) -> bytes:
        """The frame that opens the session."""
        method = self._credentials.method
        return commands.connect(_CLIENT_VERSION, method, self._sent, proxied_broker, self._original_principal)

    def refused(self) -> None:
        """The broker does not take what was sent."""
        self._credentials.refused(self._sent)

    def challenged(self, write: Callable[[list[bytes]], None], logger: log.Log) -> None:
        """The broker asks for the credentials again: those that it has have ended."""
        if self._answering is None or self._answering.done():
            self._answering = asyncio.get_running_loop().create_task(self._answer(write, logger), name="log in again")

    async def _answer(self, write: Callable[[list[bytes]], None], logger: log.Log) -> None:
        """With new ones, as soon as there are any. The broker waits until it looks again, a minute by default."""
        self.refused()
        while True:
            try:
                await self.fetch()
            except PulsarError as error:
                logger.warning("! pulsar credentials not renewed yet", extra={"reason": str(error)})
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            logger.info("> pulsar credentials renewed")
            write([commands.auth_response(_CLIENT_VERSION, self._credentials.method, self._sent)])
            return

    def close(self) -> None:
        """The connection is lost."""
        if self._answering is not None:
            self._answering.cancel()
