"""Tasks as Kafka Streams writes them: `0_3` is partition 3 of subtopology 0."""

from bridge.groups.streams.model import Task, Tasks


def tasks(text: str) -> frozenset[Task]:
    """`"0_1 0_2"` as tasks."""
    pairs = (one.rsplit("_", 1) for one in text.split())
    return frozenset(Task(subtopology, int(partition)) for subtopology, partition in pairs)


def roles(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    """The tasks of one member."""
    return Tasks(tasks(active), tasks(standby), tasks(warmup))
