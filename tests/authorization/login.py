"""A client that logs in with PLAIN and sends raw requests."""

from __future__ import annotations

import struct
from typing import Any

from bridge.apis import api_versions, sasl_authenticate, sasl_handshake
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import Connection

PASSWORD = "the same for all"  # noqa: S105
CLOSED = "closed"
"""In place of an answer."""


class LoggedIn:
    """One principal's connection; made again when the server has closed it."""

    def __init__(self, address: str, user: str, source: str = "127.0.0.1") -> None:
        self.user = user
        self._address = address
        self._source = source
        self._connection = self._connected()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """What the server answers."""
        return self._connection.ask(api, request, version)

    def told(self, api: Api, request: Any, version: int | None = None, *, answers: bool = True) -> Any:
        """What the server answers, or CLOSED; None where it does not answer, and the connection stays."""
        try:
            if answers:
                return self.ask(api, request, version)
            self._connection.send(api, request, version)
            for _ in range(2):  # the first may be answered together with the end
                self.ask(api_versions.API, api_versions.Request(client_software_name="x", client_software_version="1"))
        except (ConnectionError, EOFError, struct.error):
            self._connection.close()
            self._connection = self._connected()
            return CLOSED
        return None

    def _connected(self) -> Connection:
        connection = Connection(self._address, source=self._source)
        chosen = connection.ask(sasl_handshake.API, sasl_handshake.Request(mechanism="PLAIN"), 1)
        assert chosen.error_code == ErrorCode.NONE, chosen
        proof = sasl_authenticate.Request(auth_bytes=f"\0{self.user}\0{PASSWORD}".encode())
        answer = connection.ask(sasl_authenticate.API, proof)
        assert answer.error_code == ErrorCode.NONE, answer
        return connection
