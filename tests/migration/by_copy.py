"""From a Kafka to the bridge and home with `bridge-pipeline copy`, by the steps of the page."""

from __future__ import annotations

from pathlib import Path

from bridge.node.orphans import Guard
from tests.migration.copying import Copying
from tests.migration.mirror import ends
from tests.migration.work import PARTITIONS, Work

START_SECONDS = 240.0
"""In which Spark starts, beside clients at work."""


def until_copied(work: Work, copying: Copying, source: str, target: str) -> None:
    """Wait until all is at the target that is at the source now."""
    wanted = ends(source, work.topic, PARTITIONS)

    def there() -> bool:
        assert copying.running, copying.said()
        found = ends(target, work.topic, PARTITIONS)
        return all(found.get(key, 0) >= end for key, end in wanted.items())

    work.until("the copy", there, START_SECONDS)


def move(work: Work, copying: Copying, new: str) -> None:
    """The steps of the page, from the one at which the producers are stopped."""
    work.stop_producing()
    work.until_read(work.written())
    work.stop_consuming()
    assert copying.stop() == 0, copying.said()
    for client in work.clients:
        client.produce(new)
        client.consume(new)


def walk(work: Work, kafka: str, bridge: str, records: int, guard: Guard, directory: Path) -> None:
    """There and home, so many records of each client on each way."""
    groups = [client.group for client in work.clients]
    jobs: list[Copying] = []

    def copying(name: str, source: str, target: str) -> Copying:
        jobs.append(Copying(directory / name, guard, source, target, work.topic, groups))
        until_copied(work, jobs[-1], source, target)
        return jobs[-1]

    try:
        for client in work.clients:
            client.produce(kafka)
            client.consume(kafka)
        work.until_more(10)
        there = copying("there", kafka, bridge)
        work.until_more(records)
        move(work, there, bridge)
        work.until_more(1)
        work.tell("kafka -> bridge")
        home = copying("home", bridge, kafka)
        work.until_more(records)
        move(work, home, kafka)
        work.until_more(records)
        work.tell("bridge -> kafka")
        work.end(kafka, bridge)
    except BaseException:
        for job in jobs:
            print(job.said())
        raise
    finally:
        for job in jobs:
            job.kill()
