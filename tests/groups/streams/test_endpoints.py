"""Where interactive queries are sent (the cases of Kafka's EndpointToPartitionsManagerTest, and more)."""

import pytest

from bridge.groups.streams.endpoints import EndpointPartitions, partitions_by_endpoint
from bridge.groups.streams.model import Endpoint, StreamsMember, Subtopology, Task, Tasks, TopicInfo, Topology
from tests.groups.streams.tasks import roles

HERE, THERE = Endpoint("host-1", 9000), Endpoint("host-2", 9000)
TOPOLOGY = Topology(0, (Subtopology("0", ("a",)), Subtopology("1", repartition_sources=(TopicInfo("r"),))))


def _member(
    name: str, endpoint: Endpoint | None, active: str = "", standby: str = "", warmup: str = ""
) -> StreamsMember:
    return StreamsMember(name, "p", endpoint=endpoint, assigned=roles(active, standby, warmup))


def test_a_member_s_tasks_are_the_partitions_of_what_they_read() -> None:
    members = [_member("m", HERE, "0_0 0_1 0_2", "1_0 1_2", "1_1")]
    told = partitions_by_endpoint(members, TOPOLOGY, {"a": 3, "r": 3}.get)
    assert told == [EndpointPartitions(HERE, {"a": (0, 1, 2)}, {"r": (0, 2)})]


@pytest.mark.parametrize(
    ("active", "a", "b", "of_a", "of_b"),
    [
        ("0_0 0_1 0_2 0_3 0_4", 2, 5, (0, 1), (0, 1, 2, 3, 4)),
        ("0_0 0_1 0_2", 3, 3, (0, 1, 2), (0, 1, 2)),
        ("0_1 0_4", 2, 5, (1,), (1, 4)),  # Kafka 4.3 counts the tasks only, and tells of a partition 4 of topic a
    ],
)
def test_only_partitions_that_a_topic_has_are_told(
    active: str, a: int, b: int, of_a: tuple[int, ...], of_b: tuple[int, ...]
) -> None:
    topology = Topology(0, (Subtopology("0", ("a", "b")),))
    told = partitions_by_endpoint([_member("m", HERE, active)], topology, {"a": a, "b": b}.get)
    assert told == [EndpointPartitions(HERE, {"a": of_a, "b": of_b}, {})]


def test_the_members_of_one_endpoint_are_one_and_those_without_are_none() -> None:
    members = [
        _member("m", HERE, "0_0", "1_1"),
        _member("n", THERE, "0_1"),
        _member("o", HERE, "0_2", "1_0"),
        _member("q", None, "1_2"),
        _member("r", Endpoint("host-0", 1)),
    ]
    assert partitions_by_endpoint(members, TOPOLOGY, {"a": 3, "r": 3}.get) == [
        EndpointPartitions(Endpoint("host-0", 1), {}, {}),
        EndpointPartitions(HERE, {"a": (0, 2)}, {"r": (0, 1)}),
        EndpointPartitions(THERE, {"a": (1,)}, {}),
    ]


def test_topics_that_have_no_partition_of_a_task_are_not_looked_at_for_each_task() -> None:
    """Many topics of one partition, beside one whose partitions are many tasks."""
    names = tuple(f"t{number}" for number in range(1000))
    topology = Topology(0, (Subtopology("0", ("large", *names)),))
    sizes = dict.fromkeys(names, 1) | {"large": 1000}
    looks = 0

    class Counted(int):
        def __lt__(self, other: int) -> bool:
            nonlocal looks
            looks += 1
            return int(self) < other

    active = frozenset(Task("0", Counted(number)) for number in range(1000))
    member = StreamsMember("m", "p", endpoint=HERE, assigned=Tasks(active))
    ((_, told, _),) = partitions_by_endpoint([member], topology, sizes.get)
    assert sum(map(len, told.values())) == 2000
    assert looks < 100_000


def test_tasks_and_topics_that_are_gone_are_left_out() -> None:
    members = [_member("m", HERE, "0_0 1_0 7_0")]
    assert partitions_by_endpoint(members, TOPOLOGY, {"r": 1}.get) == [EndpointPartitions(HERE, {"r": (0,)}, {})]
