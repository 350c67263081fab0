"""How fast share consumers are, beside plain consumers, and how long an acknowledgement takes, beside an append.

    .venv/bin/python -m bench.share_groups [--records 200000] [--rounds 3]

Kafka's own tools read the same records: kafka-consumer-perf-test, and kafka-share-consumer-perf-test with 1 and with 20
members; their start, and the time until a group has its partitions, are not left out. Times of single requests are of
one connection that waits for each answer, in turns.
"""

import argparse
import resource
import secrets
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.measure import Cpu, paired_ratio
from bench.newest_kafka import SYSTEMS, Serving, create_topic, serving
from bridge.apis import (
    metadata,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.message import with_defaults
from bridge.kafka.produce_wire import Request as Produced
from bridge.kafka.produce_wire import RequestPartition, RequestTopic
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.node.orphans import Guard
from bridge.shares.state import ACCEPT
from tests.apis.configs import configure_group
from tests.apis.wire import Connection
from tests.support.java import NEWEST, run_tool

_TOOLS = "org.apache.kafka.tools."
PARTITIONS, SIZE = 12, 1000
_SINGLES = 100
_TOOL_MS = "100000"
"""The tool for share groups ends after so long, whatever it has."""
_BEGINNING = {"share.auto.offset.reset": "earliest"}


def _topic(address: str, partitions: int) -> tuple[str, uuid.UUID]:
    with Connection(address) as connection:
        name = create_topic(connection, partitions)
        request = metadata.Request(topics=[metadata.RequestTopic(name=name)], allow_auto_topic_creation=False)
        return name, connection.ask(metadata.API, request, 12).topics[0].topic_id


# ---- many records ----------------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """What one run of a consumer took."""

    rate: float
    """Records a second."""
    cpu: float
    """Of the servers, seconds."""
    client_cpu: float


class System:
    """One of them, with the records that are read."""

    def __init__(self, serving: Serving, records: int) -> None:
        self.address, self._pids, self._records = serving.address, serving.pids, records
        self._topic, _ = _topic(self.address, PARTITIONS)
        self._produce(self._topic)

    def plain(self) -> Reading:
        """A consumer of its own group."""
        return self._run("ConsumerPerformance", "--group", f"g-{secrets.token_hex(4)}")

    def share(self, members: int) -> Reading:
        """A share group of so many members, which begins at the beginning."""
        group = f"s-{secrets.token_hex(4)}"
        configure_group(self.address, group, _BEGINNING)
        return self._run("ShareConsumerPerformance", "--group", group, "--threads", str(members), "--timeout", _TOOL_MS)

    def _produce(self, topic: str) -> None:
        sent = ["--topic", topic, "--num-records", str(self._records), "--record-size", str(SIZE)]
        sent += ["--throughput", "-1", "--bootstrap-server", self.address]
        run_tool(f"{_TOOLS}ProducerPerformance", *sent, jars=NEWEST)

    def _run(self, tool: str, *arguments: str) -> Reading:
        common = ["--bootstrap-server", self.address, "--topic", self._topic, "--messages", str(self._records)]
        cpu, before = Cpu(self._pids), resource.getrusage(resource.RUSAGE_CHILDREN)
        printed = run_tool(_TOOLS + tool, *common, *arguments, jars=NEWEST)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        client = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Reading(_rate(printed), sum(cpu.used().values()), client)


def _rate(printed: str) -> float:
    """Records a second, by the tool's table, which has a line of headings."""
    head, *rows = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines() if "," in line]
    at = next(number for number, name in enumerate(head) if name.startswith("nMsg.sec"))
    return float(rows[-1][at])


LOADS: dict[str, Callable[[System], Reading]] = {
    "plain, 1 consumer": System.plain,
    "share, 1 member": lambda one: one.share(1),
    "share, 20 members": lambda one: one.share(20),
}


# ---- single requests -------------------------------------------------------------------------------------------------


def _batch(count: int) -> bytes:
    records = [Record(number, 0, None, bytes(SIZE), ()) for number in range(count)]
    return bytes(build_batch(records, Rebuild(0, count, 0, own=True)))


def _append(connection: Connection, topic: str, records: bytes) -> None:
    partition = with_defaults(RequestPartition, index=0, records=records)
    topics = [with_defaults(RequestTopic, name=topic, partition_data=[partition])]
    connection.ask(produce.API, with_defaults(Produced, acks=-1, timeout_ms=5000, topic_data=topics), 7)


class _Member:
    """One that has records to acknowledge, one at a time."""

    def __init__(self, connection: Connection, group: str, topic: str, topic_id: uuid.UUID, count: int) -> None:
        self._connection, self._topic_id, self._group = connection, topic_id, group
        epoch, joined = 0, False
        while not joined:
            beat = share_group_heartbeat.Request(
                group_id=self._group, member_id="m", member_epoch=epoch,
                subscribed_topic_names=None if epoch else [topic],
            )  # fmt: skip
            answer = connection.ask(share_group_heartbeat.API, beat)
            epoch = answer.member_epoch
            joined = answer.assignment is not None and bool(answer.assignment.topic_partitions)
            time.sleep(0.1)
        self._epoch, had = 0, 0
        while had < count:
            had += self._fetch()

    def acknowledge(self, offset: int) -> None:
        """Accept it, and wait until that is stored."""
        said = [AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT])]
        part = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=said)
        topics = [share_acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=[part])]
        request = share_acknowledge.Request(
            group_id=self._group, member_id="m", share_session_epoch=self._epoch, topics=topics
        )
        answer = self._connection.ask(share_acknowledge.API, request, 1)
        if answer.error_code or answer.responses[0].partitions[0].error_code:
            raise AssertionError(answer)
        self._epoch += 1

    def _fetch(self) -> int:
        part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
        request = share_fetch.Request(
            group_id=self._group, member_id="m", share_session_epoch=self._epoch, max_wait_ms=500, min_bytes=1,
            max_records=_SINGLES, batch_size=_SINGLES, forgotten_topics_data=[],
            topics=[share_fetch.FetchTopic(topic_id=self._topic_id, partitions=[part])],
        )  # fmt: skip
        answer = self._connection.ask(share_fetch.API, request, 1)
        if answer.error_code:
            raise AssertionError(answer)
        self._epoch += 1
        return sum(
            one.last_offset - one.first_offset + 1
            for topic in answer.responses
            for part in topic.partitions
            for one in part.acquired_records
        )


def _singles(address: str) -> tuple[float, float]:
    """Median milliseconds of an append and of an acknowledgement, in turns."""
    topic, topic_id = _topic(address, 1)
    other, _ = _topic(address, 1)
    appends, acknowledgements = list[float](), list[float]()
    with Connection(address) as one, Connection(address) as two:
        for _ in range(_SINGLES):
            _append(one, topic, _batch(1))
        group = f"s-{secrets.token_hex(4)}"
        configure_group(address, group, _BEGINNING)
        member, record = _Member(two, group, topic, topic_id, _SINGLES), _batch(1)
        for offset in range(_SINGLES):
            began = time.perf_counter()
            _append(one, other, record)
            between = time.perf_counter()
            member.acknowledge(offset)
            acknowledgements.append(time.perf_counter() - between)
            appends.append(between - began)
    return statistics.median(appends) * 1000, statistics.median(acknowledgements) * 1000


def main() -> None:
    """Both stand there, and take turns: the machine's other work meets both alike."""
    parser = argparse.ArgumentParser(prog="python -m bench.share_groups", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=200_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        systems: dict[str, System] = {}
        for name in SYSTEMS:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            systems[name] = System(stack.enter_context(serving(name, guard, work)), options.records)
        for load, run in LOADS.items():
            found: dict[str, list[Reading]] = {name: [] for name in SYSTEMS}
            for _ in range(options.rounds):
                for name, system in systems.items():
                    found[name].append(run(system))
            _tell(load, found)
        singles: dict[str, list[tuple[float, float]]] = {name: [] for name in SYSTEMS}
        for _ in range(options.rounds):
            for name, system in systems.items():
                singles[name].append(_singles(system.address))
        for name, times in singles.items():
            append, acknowledgement = (statistics.median(ones) for ones in zip(*times, strict=True))
            print(
                f"{name}: p50 of an append {append:.2f} ms, of an acknowledgement {acknowledgement:.2f} ms", flush=True
            )


def _tell(load: str, found: dict[str, list[Reading]]) -> None:
    for name, readings in found.items():
        every = ", ".join(f"{one.rate:,.0f}" for one in readings)
        cpu, client = (
            statistics.median(ones) for ones in ([one.cpu for one in readings], [one.client_cpu for one in readings])
        )
        print(f"{load}: {name}: {every} records/s; CPU of servers {cpu:.1f} s, of clients {client:.1f} s", flush=True)
    ratio = paired_ratio([one.rate for one in found["bridge"]], [one.rate for one in found["kafka"]])
    print(f"{load}: bridge / Kafka {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
