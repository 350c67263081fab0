"""Mistakes of Kafka clients, as the bridge's log has them, and of commands."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.access.password_file import line_of
from tests.mistakes.mistake import Mistake, Place
from tests.security.users import credential
from tests.support.certificates import Authority


def _sent(data: bytes) -> Callable[[str], object]:
    def send(address: str) -> None:
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), 10) as connection, suppress(OSError):
            connection.sendall(data)
            connection.recv(1000)

    return send


def _handshake(address: str) -> None:
    host, _, port = address.partition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), 10) as connection, suppress(OSError):
        context.wrap_socket(connection)


def _asks(**settings: str) -> Callable[[str], object]:
    """A client that lists topics, once."""

    def ask(address: str) -> None:
        client = AdminClient({"bootstrap.servers": address, "log_level": 0, **settings})
        with suppress(confluent_kafka.KafkaException):
            client.list_topics(timeout=5)

    return ask


def _with_users(place: Place) -> str:
    file = place.file("users", line_of("alice", credential("SCRAM-SHA-256", "wonder land")) + "\n")
    return (
        f'[kafka]\nlisteners = "SASL_PLAINTEXT://127.0.0.1:{place.kafka}"\nsasl_enabled_mechanisms = "SCRAM-SHA-256"\n'
        f'[security]\npassword_file = "{file}"\n'
    )


def _login(mechanism: str, password: str) -> Callable[[Place], str]:
    settings = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.username": "alice", "sasl.password": password,
    }  # fmt: skip
    return lambda place: _first(place.served(_with_users(place), _asks(**settings)))


def _first(text: str) -> str:
    """A client may try again."""
    return text.splitlines()[0] if text else ""


def _plain_to_tls(place: Place) -> str:
    files = Authority(place.directory).sign("node")
    text = (
        f'[kafka]\nlisteners = "SSL://127.0.0.1:{place.kafka}"\n[listener.SSL]\n'
        f'ssl_certificate_file = "{files.certificate}"\nssl_key_file = "{files.key}"\n'
    )
    return _first(place.served(text, _asks()))


def _no_log_in(place: Place) -> str:
    return _first(place.served(_with_users(place), _asks()))


def _command(*arguments: str) -> Callable[[Place], str]:
    """What a command prints that asks a bridge."""

    def run(place: Place) -> str:
        said: list[str] = []

        def ask(address: str) -> None:
            client = AdminClient({"bootstrap.servers": address})
            client.create_topics([NewTopic("orders", 4, 1)])["orders"].result(30)
            said.append(place.bridge(*arguments, "--bootstrap", address))

        place.served("", ask)
        return said[0]

    return run


def _offline(*arguments: str) -> Callable[[Place], str]:
    """What a command prints where no bridge runs."""

    def run(place: Place) -> str:
        place.settings()
        return place.bridge(*arguments, "--config", "bridge.toml")

    return run


MISTAKES = [
    Mistake(
        "a client speaks TLS to a listener without",
        lambda place: _first(place.served("", _handshake)),
        "set security.protocol of the client",
    ),
    Mistake("a client without TLS at a listener that has it", _plain_to_tls, "set its security.protocol"),
    Mistake(
        "a browser at the Kafka port",
        lambda place: _first(place.served("", _sent(b"GET / HTTP/1.1\r\n\r\n"))),
        "are at http.listen",
    ),
    Mistake("a client that does not log in", _no_log_in, "set security.protocol and sasl.mechanism"),
    Mistake("a wrong password", _login("SCRAM-SHA-256", "looking glass"), "password"),
    Mistake("a mechanism that the listener does not have", _login("PLAIN", "wonder land"), "sasl_enabled_mechanisms"),
    Mistake("a topic that is not there", _command("topic", "describe", "order"), "`bridge topic list` shows"),
    Mistake("a topic that is there already", _command("topic", "create", "orders"), "`bridge topic config` and"),
    Mistake("fewer partitions than there are", _command("topic", "grow", "orders", "2"), "would not be an increase"),
    Mistake(
        "a config that no topic has",
        _command("topic", "config", "orders", "retention.mss=1"),
        "`bridge topic config TOPIC` shows all",
    ),
    Mistake("a group that is not there", _command("group", "describe", "billing"), "`bridge group list` shows"),
    Mistake("is it ready, where nothing runs", _offline("ready"), "is the bridge running"),
    Mistake("its nodes, where none has ever run", _offline("nodes"), "`bridge run` starts the first"),
    Mistake("topics of a bridge that does not run", _offline("topic", "list"), "--bootstrap HOST:PORT"),
]
