"""From a Kafka to the bridge and home with MirrorMaker 2, by the steps of the page."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bridge.node.orphans import Guard
from bridge.pipeline.ranges import Partition
from tests.migration.mirror import Mirror, committed, ends
from tests.migration.work import PARTITIONS, TIMEOUT_SECONDS, Work
from tests.support.foreign import until


def move(work: Work, old: str, new: str) -> dict[Partition, int]:
    """Steps 2 to 7 of the page; where both sides ended in step 3."""
    work.stop_producing()
    written, parted = work.written(), ends(old, work.topic, PARTITIONS)
    assert until(lambda: ends(new, work.topic, PARTITIONS) == parted, TIMEOUT_SECONDS), parted
    for client in work.clients:
        client.produce(new)
    work.until_read(written)
    work.stop_consuming()
    for client in work.clients:
        there = committed(old, client.group)
        assert sum(there.values()) == len(written)
        assert until(partial(same_offsets, new, client.group, there), TIMEOUT_SECONDS), (client.group, there)
        client.consume(new)
    return parted


def until_mirrored(work: Work, bootstrap: str, records: int) -> None:
    """Wait until so many records are there."""
    work.until("MirrorMaker", lambda: sum(ends(bootstrap, work.topic, PARTITIONS).values()) >= records)


def same_offsets(bootstrap: str, group: str, wanted: dict[Partition, int]) -> bool:
    return committed(bootstrap, group) == wanted


def walk(work: Work, kafka: str, bridge: str, records: int, guard: Guard, directory: Path) -> None:
    """There and home, so many records of each client on each way."""
    addresses = {"kafka": kafka, "bridge": bridge}
    there = Mirror(directory / "there", guard, ("kafka", "bridge"), addresses, work.topic)
    home = Mirror(directory / "home", guard, ("bridge", "kafka"), addresses, work.topic)
    try:
        for client in work.clients:
            client.produce(kafka)
            client.consume(kafka)
        work.until_more(10)  # MirrorMaker looks for groups as it starts
        there.start()
        until_mirrored(work, bridge, sum(ends(kafka, work.topic, PARTITIONS).values()))
        work.until_more(records)
        parted = move(work, kafka, bridge)
        there.stop()
        work.until_more(1)
        work.tell("kafka -> bridge")
        home.begin_at(parted)
        home.start()
        until_mirrored(work, kafka, sum(parted.values()) + 1)
        work.until_more(records)
        move(work, bridge, kafka)
        home.stop()
        work.until_more(records)
        work.tell("bridge -> kafka")
        work.end(kafka, bridge)
    except BaseException:
        print(there.said(), home.said())
        raise
    finally:
        there.kill()
        home.kill()
