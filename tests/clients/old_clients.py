"""Drives kafka-python 2.x told to talk to a Kafka of long ago; runs where `kafka` is that version, a JSON line each.

With 0.8.2 it uses Produce v0, Fetch v0 and ListOffsets v0, and magic 0; with 0.9 v1 of the first two; with 0.10 v2 and
magic 1; with 0.10.1 Fetch v3 and ListOffsets v1.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.families.remote import decode, encode
from tests.clients.model import TIMEOUT_SECONDS


class OldClients:
    """Commands by their names; `release` is the Kafka that the client believes to talk to."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def serve(self) -> None:
        """Answer until the input ends."""
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer = {"result": getattr(self, "do_" + command.pop("op"))(**command)}
            except Exception as error:  # noqa: BLE001 — told to the test
                answer = {"error": type(error).__name__, "message": str(error)}
            print(json.dumps(answer), flush=True)

    def do_write(self, release: list[int], topic: str, codec: str | None, records: list[Any]) -> list[tuple[int, int]]:
        """Send all at once; where each went."""
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, api_version=tuple(release), compression_type=codec, linger_ms=50
        )
        with closing(producer):
            futures = [
                producer.send(topic, decode(value), decode(key), partition=partition, timestamp_ms=timestamp)
                for partition, timestamp, key, value in records
            ]
            producer.flush(TIMEOUT_SECONDS)
            results = [future.get(TIMEOUT_SECONDS) for future in futures]
        return [(result.partition, result.offset) for result in results]

    def do_read(self, release: list[int], topic: str, again: int | None, most: int = 1 << 20) -> list[Any]:
        """Read a topic's partition 0 from its beginning to its end as the client finds both, then from an offset."""
        partition = TopicPartition(topic, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            api_version=tuple(release),
            max_partition_fetch_bytes=most,
            fetch_max_wait_ms=20,  # so long each fetch at the end delays what comes after it
            group_id=None,
            check_crcs=True,
        )
        with closing(consumer):
            consumer.assign([partition])
            # `position` of 2.2 spins, and reads no answers until the one that it waits for counts as lost, each time
            end = consumer.end_offsets([partition])[partition]
            consumer.seek_to_beginning(partition)
            found = self._poll(consumer, end)
            if again is not None:
                consumer.seek(partition, again)
                found += self._poll(consumer, end - again)
            return found

    def do_subscribe(self, release: list[int], topic: str, group: str, count: int) -> list[Any]:
        """Read so many records of a topic as a group's member and commit them."""
        partition = TopicPartition(topic, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            api_version=tuple(release),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=count,
        )
        with closing(consumer):
            if tuple(release) < (0, 9):  # groups could only keep offsets then
                consumer.assign([partition])
            else:
                consumer.subscribe([topic])
            found = self._poll(consumer, count)
            consumer.commit()
            return found

    def _poll(self, consumer: Any, count: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records in {TIMEOUT_SECONDS:.0f} s"
            for batch in consumer.poll(timeout_ms=100).values():
                found += [
                    (one.offset, one.timestamp, encode(one.key), encode(one.value), list(one.headers)) for one in batch
                ]
        return found


if __name__ == "__main__":
    OldClients(sys.argv[1]).serve()
