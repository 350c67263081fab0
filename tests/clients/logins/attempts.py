"""What each client was told by one server: each case is tried once, and looked at by several tests."""

from __future__ import annotations

from tests.clients.logins.clients import Clients, Told
from tests.clients.logins.servers import Server
from tests.clients.logins.ways import MUTUAL_TLS, RIGHT


class Attempts:
    """By client, mechanism and case."""

    def __init__(self, server: Server, clients: Clients) -> None:
        self.is_bridge = server.is_bridge
        self._server = server
        self._clients = clients
        self._told: dict[tuple[str, str, str], Told] = {}

    def told(self, client: str, mechanism: str, case: str) -> Told:
        """What it says, and when."""
        key = (client, mechanism, case)
        if key not in self._told:
            way = self._server.way(mechanism, case)
            self._told[key] = self._clients.attempt(client, way, self._server.topic)
        return self._told[key]


OF_LOGIN = {
    "kafka-python": "KafkaTimeoutError: SaslAuthenticationFailedError",
    "confluent-kafka": "_AUTHENTICATION",
    "aiokafka": "KafkaConnectionError: SaslAuthenticationFailed",
    "Java": "SaslAuthenticationException",
    "franz-go": "SASL_AUTHENTICATION_FAILED",
    "kcat": "Authentication failure",
}
"""How each client names SASL_AUTHENTICATION_FAILED."""
OF_TOKENS = {
    **OF_LOGIN,
    "aiokafka": "KafkaConnectionError",
    "franz-go": "unexpected data in oauth response",
}
"""These two do not read the refusal of a token (RFC 7628's second message), and say what they run into."""
OF_TLS = {
    "kafka-python": "KafkaTimeoutError: SSL alert",
    "confluent-kafka": "_TRANSPORT",
    "aiokafka": "KafkaConnectionError",
    "Java": "SslAuthenticationException",
    "franz-go": "remote error: ",
    "kcat": "Broker transport failure",
}
"""How each client names the alert that its certificate is not taken."""
_REFUSED_OLD = {("kcat", "SCRAM-SHA-256", RIGHT), ("kcat", "SCRAM-SHA-512", RIGHT)}
"""Kafka 4 does not take what librdkafka before 2.6.1 sends (confluentinc/librdkafka#4895)."""


def expected(client: str, mechanism: str, case: str, *, by_bridge: bool) -> set[str]:
    """What a client may say; nothing where it is let in."""
    if case == RIGHT and (by_bridge or (client, mechanism, case) not in _REFUSED_OLD):
        return {""}
    said = {MUTUAL_TLS: OF_TLS, "OAUTHBEARER": OF_TOKENS}.get(mechanism, OF_LOGIN)[client]
    # Kafka's answer may come together with the end of the connection, and kafka-python drops it then. A wrong token
    # keeps aiokafka waiting there: it does not read the refusal.
    other = {("kafka-python", mechanism): "KafkaTimeoutError", ("aiokafka", "OAUTHBEARER"): "TimeoutError"}
    return {said} if by_bridge else {said, other.get((client, mechanism), said)}
