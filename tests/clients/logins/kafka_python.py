"""Logs in with kafka-python: a process of its own, for one that is refused leaves its sockets open."""

from __future__ import annotations

import json
import logging
import ssl
import sys
import time
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

REFUSALS: Final = {"SaslAuthenticationFailedError": "SaslAuthenticationFailedError", "[SSL: ": "SSL alert"}
"""What is in the lines that name the cause, and the cause."""


class Told(logging.Handler):
    """What the client logs of it: it tries again without an end of its own."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self.seconds = 0.0
        self._begun = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line that names the cause."""
        text = record.getMessage()
        if not self.first and any(found in text for found in REFUSALS):
            self.first, self.seconds = text, time.monotonic() - self._begun


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Has one token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """Asked for at each log-in."""
        return self._token


def produce_and_fetch(words: dict[str, Any], topic: str, value: str, bootstrap_ms: int) -> None:
    """Raise what keeps the client from it."""
    producer = KafkaProducer(**words, bootstrap_timeout_ms=bootstrap_ms)
    sent = producer.send(topic, value.encode()).get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(**words, consumer_timeout_ms=20_000)
    partition = TopicPartition(topic, sent.partition)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    if next(consumer).value != value.encode():
        raise ValueError("another record is there")
    consumer.close()


def main() -> None:
    """Read what to do, and write what came of it."""
    asked = json.load(sys.stdin)
    words: dict[str, Any] = asked["words"]
    words["ssl_context"] = context = ssl.create_default_context(cafile=asked["authority"])
    if asked["own"]:
        context.load_cert_chain(*asked["own"])
    if asked["token"]:
        words["sasl_oauth_token_provider"] = Provider(asked["token"])
    told = Told()
    logging.getLogger("kafka").addHandler(told)
    begun = time.monotonic()
    error = text = ""
    try:
        produce_and_fetch(words, asked["topic"], asked["value"], asked["bootstrap_ms"])
    except Exception as failed:  # noqa: BLE001 - whatever it is, it is what this client says
        error, text = type(failed).__name__, str(failed)
    seconds = time.monotonic() - begun
    if error and told.first:
        seconds = told.seconds
        error = f"{error}: {next(name for found, name in REFUSALS.items() if found in told.first)}"
        text = told.first
    print(json.dumps({"error": error, "text": text, "seconds": seconds}))


if __name__ == "__main__":
    main()
