"""Readers that follow a topic as users of each client do, each a member of a group of its own."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from tests.faults.clients import Server, words
from tests.support.java import java_command

_TURN_SECONDS = 0.2
Record = tuple[int, int, bytes]
"""Partition, offset, value."""


class Reader(threading.Thread, ABC):
    """A consumer of its own group that reads a topic from its beginning, and what its user is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.records: dict[tuple[int, int], bytes] = {}
        self.wrong: list[str] = []
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            self.read()
        except Exception as error:  # noqa: BLE001 - told to the test, which fails
            self.wrong.append(f"{self.name}: {error!r}")

    @abstractmethod
    def read(self) -> None:
        """Until it is to end."""

    def take(self, records: Iterable[Record]) -> None:
        """They have come."""
        for partition, offset, value in records:
            if (partition, offset) in self.records:
                self.wrong.append(f"{self.name}: {partition}/{offset} came again")
            self.records[partition, offset] = value

    def finish(self, wanted: Mapping[tuple[int, int], bytes], seconds: float) -> list[str]:
        """End when all is read; what was wrong."""
        until = time.monotonic() + seconds
        while self.is_alive() and len(self.records) < len(wanted) and time.monotonic() < until:
            self.join(0.05)
        self.ending.set()
        self.join(seconds)
        same = self.records == wanted
        return self.wrong + ([] if same else [f"{self.name}: {len(self.records)} read, not {len(wanted)}, or others"])


class ConfluentReader(Reader):
    """A member of a group by librdkafka."""

    def __init__(self, name: str, server: Server, topic: str) -> None:
        super().__init__(name)
        self._topic = topic
        self._server = {**words(server), "group.id": name, "auto.offset.reset": "earliest"}

    def read(self) -> None:
        consumer = Consumer(self._server)
        consumer.subscribe([self._topic])
        while not self.ending.is_set():
            messages = consumer.consume(500, _TURN_SECONDS)
            self.wrong += [f"{self.name}: {one.error()}" for one in messages if one.error() is not None]
            self.take((one.partition(), one.offset(), one.value()) for one in messages if one.error() is None)
        consumer.close()


class KafkaPythonReader(Reader):
    """A member of a group by kafka-python."""

    def __init__(self, name: str, settings: Mapping[str, Any], topic: str) -> None:
        super().__init__(name)
        self._topic, self._settings = topic, settings

    def read(self) -> None:
        consumer = KafkaConsumer(self._topic, group_id=self.name, auto_offset_reset="earliest", **self._settings)
        while not self.ending.is_set():
            for records in consumer.poll(timeout_ms=int(_TURN_SECONDS * 1000)).values():
                self.take((one.partition, one.offset, one.value) for one in records)
        consumer.close()


class AiokafkaReader(Reader):
    """A member of a group by aiokafka."""

    def __init__(self, name: str, settings: Mapping[str, Any], topic: str) -> None:
        super().__init__(name)
        self._topic, self._settings = topic, settings

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        options = {"group_id": self.name, "auto_offset_reset": "earliest"}
        consumer = AIOKafkaConsumer(self._topic, **options, **self._settings)
        await consumer.start()
        try:
            while not self.ending.is_set():
                for records in (await consumer.getmany(timeout_ms=int(_TURN_SECONDS * 1000))).values():
                    self.take((one.partition, one.offset, one.value) for one in records)
        finally:
            try:
                await consumer.stop()
            except asyncio.CancelledError:  # aiokafka 0.14, where a fetch waits to be repeated: the rest stays open
                await consumer._client.close()


class JavaReader(Reader):
    """Java's console consumer, which prints records and what it warns of."""

    def __init__(self, name: str, bootstrap: str, topic: str, config: Path, options: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        where = ("--bootstrap-server", bootstrap, "--topic", topic, "--consumer.config", str(config))
        shown = ("print.partition=true", "print.offset=true", "print.value=true")
        formats = [word for one in shown for word in ("--property", one)]
        self._command = java_command(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--from-beginning", *formats
        )
        self._command[1:1] = options

    def read(self) -> None:
        with subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

            def stop() -> None:
                self.ending.wait()
                process.terminate()

            stopping = threading.Thread(target=stop)
            stopping.start()
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                partition, offset, value = line.rstrip("\n").split("\t")
                self.take([(int(partition.partition(":")[2]), int(offset.partition(":")[2]), value.encode())])
            self.ending.set()
            stopping.join()
            warned = [line for line in process.stderr.read().splitlines() if "[main] WARN" in line or "ERROR" in line]
            self.wrong += [f"{self.name}: {line}" for line in warned]
