"""Logs in with aiokafka on command: a process of its own, for one that is refused may leave its socket open."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider

TIMEOUT = 25.0


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Has one token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """Asked for at each log-in."""
        return self._token


class Log(logging.Handler):
    """What aiokafka logs: the exception that it raises does not name the cause."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(record.getMessage())


async def produce_and_fetch(asked: dict[str, Any]) -> None:
    """Raise what keeps the client from it."""
    words = asked["words"]
    words["ssl_context"] = context = ssl.create_default_context(cafile=asked["authority"])
    if asked["own"]:
        context.load_cert_chain(*asked["own"])
    if asked["token"]:
        words["sasl_oauth_token_provider"] = Provider(asked["token"])
    producer = AIOKafkaProducer(**words)
    try:
        await producer.start()
        sent = await producer.send_and_wait(asked["topic"], asked["value"].encode())
    finally:
        await producer.stop()
    async with AIOKafkaConsumer(**words) as consumer:
        partition = TopicPartition(asked["topic"], sent.partition)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        if (await consumer.getone()).value != asked["value"].encode():
            raise ValueError("another record is there")


def attempt(asked: dict[str, Any], log: Log) -> dict[str, object]:
    """What it said, and when."""
    log.lines.clear()
    error = text = ""
    begun = time.monotonic()
    try:
        asyncio.run(asyncio.wait_for(produce_and_fetch(asked), TIMEOUT))
    except Exception as failed:  # noqa: BLE001 - whatever it is, it is what this client says
        text = "\n".join(log.lines)
        error = type(failed).__name__ + (": SaslAuthenticationFailed" if "SaslAuthenticationFailed" in text else "")
    return {"error": error, "text": text, "seconds": time.monotonic() - begun}


def main() -> None:
    """One JSON line in, one JSON line out."""
    log = Log()
    logging.getLogger("aiokafka").addHandler(log)
    for line in sys.stdin:
        print(json.dumps({"result": attempt(json.loads(line), log)}), flush=True)


if __name__ == "__main__":
    main()
