"""More clients of the log checker: aiokafka, and Java's and franz-go's producers in processes of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata

from tests.faults.clients import Writer
from tests.support.driver import Driver
from tests.support.go import built
from tests.support.java import KAFKA, QUICK_START, java_driver

_JAVA, _GO = Path(__file__).parents[1] / "java", Path(__file__).parents[1] / "go"
_RATE = 150
_CALL_SECONDS = 150.0


class AioKafkaWriter(Writer):
    """aiokafka's idempotent producer; it repeats what fails with a retriable error for as long as it takes."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, changed: threading.Condition, **settings: Any
    ) -> None:
        """`settings`: more of aiokafka's."""
        super().__init__(name, partitions, changed, idempotent=True)
        self._topic = topic
        self._settings = {"bootstrap_servers": bootstrap, "linger_ms": 5, "request_timeout_ms": 30_000, **settings}
        self._loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self._loop.run_forever, name=f"aiokafka {name}", daemon=True)
        self._runner.start()
        self._producer: AIOKafkaProducer = self._call(self._start_producer())

    async def _start_producer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(enable_idempotence=True, **self._settings)
        await producer.start()
        return producer

    def send(self, where: int, value: bytes, now: float) -> None:
        sending = asyncio.run_coroutine_threadsafe(self._producer.send(self._topic, value, partition=where), self._loop)
        future = sending.result(_CALL_SECONDS)

        def done(future: asyncio.Future[RecordMetadata]) -> None:
            error = future.exception()
            if error is not None:
                self.refused(f"{type(error).__name__}: {error}")
            else:
                self.acked(where, future.result().offset, value, now)

        self._loop.call_soon_threadsafe(future.add_done_callback, done)

    def serve(self, seconds: float) -> None:
        if self.stopped:
            threading.Event().wait(seconds)
        else:
            self._paced.wait(seconds)

    def close(self) -> None:
        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._stop_producer(), self._loop).result(_CALL_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._runner.join(_CALL_SECONDS)
            self._loop.close()

    async def _stop_producer(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._producer.stop()
        # what it was connecting then, and the loop's turn in which transports that are closed let go of their sockets
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=5)
        await asyncio.sleep(0)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)


class DriverWriter(Writer):
    """A producer in a process of its own that paces itself."""

    def __init__(
        self, name: str, topic: str, partitions: int, changed: threading.Condition, driver: Driver, *, idempotent: bool
    ) -> None:
        super().__init__(name, partitions, changed, idempotent)
        self.how: dict[str, Any] = {"topic": topic, "partitions": partitions, "rate": _RATE}
        """What it is told at its start."""
        self._driver = driver
        self._driver.listen(name, self._told)

    def run(self) -> None:
        try:
            self._driver.call("start", name=self.name, **self.how)
            self._paced.wait()
            if not self._given_up:
                self.sent = self._driver.call("end", name=self.name)
        except Exception as error:  # noqa: BLE001 - told to the test, which fails
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self.close()

    def _told(self, event: dict[str, Any]) -> None:
        for number, where, offset, error, when, sent in event.get("outcomes", ()):
            self.sent = max(self.sent, number + 1)
            if error is not None:
                self.refused(error)
            else:
                self.acked(where, offset, f"{self.name}:{number}".encode(), sent, when)

    def send(self, where: int, value: bytes, now: float) -> None:
        raise NotImplementedError("the driver sends")

    def serve(self, seconds: float) -> None:
        raise NotImplementedError("the driver paces itself")

    def close(self) -> None:
        self._driver.close()


class JavaWriter(DriverWriter):
    """Kafka's own producer with its defaults: idempotent, five requests at a time."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topic: str,
        partitions: int,
        changed: threading.Condition,
        work: Path,
        *,
        repeats: bool = True,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = QUICK_START,
    ) -> None:
        """`repeats`: otherwise it never repeats and is not idempotent. `settings`: more of the producer's. `options`:
        of the JVM."""
        driver: Driver = java_driver(_JAVA, KAFKA, bootstrap, work / f"java-{name}", options)
        super().__init__(name, topic, partitions, changed, driver, idempotent=repeats)
        self.how |= {"repeats": repeats, "settings": dict(settings or {})}


class GoWriter(DriverWriter):
    """franz-go with its defaults: idempotent, five requests at a time."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, changed: threading.Condition, work: Path
    ) -> None:
        driver = Driver([str(built(_GO, work / "writer")), bootstrap], work / f"go-{name}.log")
        super().__init__(name, topic, partitions, changed, driver, idempotent=True)


def longest_pause(writers: list[Writer], since: float) -> float:
    """The longest time any of them waited for the next acknowledgement of one partition, from a moment until now."""
    longest, now = 0.0, time.monotonic()
    for writer in writers:
        for times in writer.ack_times(since).values():
            marks = [since, *times, now]
            longest = max(longest, *(after - before for before, after in pairwise(marks)))
    return longest
