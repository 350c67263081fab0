"""What Pulsar itself lets a role do: by its own client, and by its admin interface."""

from __future__ import annotations

import secrets

import pulsar

from tests.pulsar_secured.matrix.cells import ALL
from tests.support.secured_pulsar import SecuredPulsar

_SECONDS = 10
_DENIED = (401, 403)
_LOG = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Native:
    """A namespace with a topic that has an entry, and what may be deleted."""

    def __init__(self, secured: SecuredPulsar, namespace: str, service_url: str) -> None:
        """`service_url`: the broker's, or that of a proxy in front of it."""
        self._service_url = service_url
        self._secured = secured
        self._place = f"persistent/{namespace}"
        self._topic = f"persistent://{namespace}/native"
        client = self._client(secured.token("admin"))
        client.create_producer(self._topic).send(b"v")
        client.close()

    def may(self, role: str) -> str:
        """The letters of what the role may do."""
        client = self._client(self._secured.token(role))
        try:
            return "".join(letter for letter in ALL if self._does(letter, client, role))
        finally:
            client.close()

    def _client(self, token: str) -> pulsar.Client:
        return pulsar.Client(
            self._service_url, authentication=pulsar.AuthenticationToken(token), logger=_LOG,
            operation_timeout_seconds=_SECONDS,
        )  # fmt: skip

    def _does(self, letter: str, client: pulsar.Client, role: str) -> bool:
        if letter in "PF":
            try:
                if letter == "P":
                    client.create_producer(self._topic).send(b"v")
                else:
                    client.create_reader(self._topic, pulsar.MessageId.earliest).read_next(_SECONDS * 1000)
            except (pulsar.AuthorizationError, pulsar.AuthenticationError):
                return False
            return True
        method, path, body = self._request(letter)
        status, said = self._secured.ask(method, path, body, role)
        assert status < 300 or status in _DENIED, (letter, role, status, said)
        return status < 300

    def _request(self, letter: str) -> tuple[str, str, object]:
        fresh = f"{self._place}/n-{secrets.token_hex(4)}"
        if letter == "C":
            return "PUT", f"{fresh}/partitions", 1
        if letter == "D":
            self._secured.admin("PUT", f"{fresh}/partitions", 1)
            return "DELETE", f"{fresh}/partitions", None
        if letter == "G":
            path = f"{self._place}/native/subscription/s-{secrets.token_hex(4)}"
            self._secured.admin("PUT", path)
            return "DELETE", path, None
        return "GET", self._place, None
