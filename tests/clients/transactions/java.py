"""Transactions of the Java client: protocol 2 from 4.0 on, 1 before; offsets with the member's generation (KIP-447)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.clients.transactions.model import Ended, Fenced, Seen
from tests.support.driver import Driver, DriverError
from tests.support.java import Jars, java_driver

SOURCES = Path(__file__).parent / "java"
_FENCED = {"ProducerFencedException", "InvalidProducerEpochException", "FencedProducer"}


class DrivenTransactions:
    """A family in a process of its own."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> DrivenProducer:
        """A producer that has fenced those before it."""
        return DrivenProducer(self._driver, transactional_id, timeout_ms)

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> DrivenReader:
        """A reader of committed records, or of all."""
        return DrivenReader(self._driver, topic, partitions, committed)

    def copier(self, source: str, target: str, group: str) -> DrivenCopier:
        """A copier at work."""
        return DrivenCopier(self._driver, source, target, group)

    def close(self) -> None:
        """End the process."""
        self._driver.close()


class JavaTransactions(DrivenTransactions):
    """kafka-clients of some version."""

    def __init__(self, jars: Jars, bootstrap: str, work: Path) -> None:
        super().__init__(java_driver(SOURCES, jars, bootstrap, work))


class _Driven:
    """Something that lives in the driver under a name."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._name = uuid4().hex

    def _call(self, operation: str, **arguments: object) -> Any:
        try:
            return self._driver.call(operation, name=self._name, **arguments)
        except DriverError as error:
            raise (Fenced if error.kind in _FENCED else Ended)(str(error)) from error


class DrivenProducer(_Driven):
    """A transactional producer."""

    def __init__(self, driver: Driver, transactional_id: str, timeout_ms: int) -> None:
        super().__init__(driver)
        self._call("producer", id=transactional_id, timeout=timeout_ms)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("begin")

    def send(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Write records and wait for their acknowledgements."""
        self._call("send", topic=topic, partition=partition, values=list(values))

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group without members."""
        self._call("offsets", group=group, topic=topic, offsets={str(one): offset for one, offset in offsets.items()})

    def commit(self) -> None:
        """Commit."""
        self._call("commit")

    def abort(self) -> None:
        """Abort."""
        self._call("abort")

    def close(self) -> None:
        """Let go, whatever is open."""
        self._call("close")


class DrivenReader(_Driven):
    """An assigned consumer."""

    def __init__(self, driver: Driver, topic: str, partitions: Sequence[int], committed: bool) -> None:
        super().__init__(driver)
        self._positions = dict.fromkeys(partitions, 0)
        self._call("reader", topic=topic, partitions=list(partitions), committed=committed)

    def read(self) -> Seen:
        """Read up to the ends of its level."""
        seen: Seen = {partition: [] for partition in self._positions}
        found = self._call("read")
        for partition, value in found["records"]:
            seen[partition].append(value)
        self._positions = {int(partition): offset for partition, offset in found["positions"].items()}
        return seen

    def position(self, partition: int) -> int:
        """Where it is."""
        return self._positions[partition]

    def close(self) -> None:
        """Let go."""
        self._call("close-reader")


class DrivenCopier(_Driven):
    """A member with a producer."""

    def __init__(self, driver: Driver, source: str, target: str, group: str) -> None:
        super().__init__(driver)
        self._call("copier", source=source, target=target, group=group, id=f"copier-{self._name}")

    def stop(self) -> None:
        """End, between two transactions."""
        self._call("close-copier")
