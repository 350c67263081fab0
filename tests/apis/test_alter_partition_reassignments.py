"""AlterPartitionReassignments: a partition stays where it is, and a client that wants it elsewhere is told so."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.apis import alter_partition_reassignments as api
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.cluster.shared_settings import fingerprint
from bridge.config import Settings
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.session import Session


def _cluster(*, racks: bool) -> Cluster:
    """Two nodes; the first one leads all. `racks`: the other one serves the consumers of its own rack."""
    settings = fingerprint(Settings().with_values(cluster={"rack_aware_fetch": racks}))
    members = {
        number: NodeRegistration(
            f"n{number}", 1, number, (Endpoint("PLAINTEXT", "127.0.0.1", 9091 + number),), since=1,
            rack=f"rack-{number}", settings=settings,
        )
        for number in (1, 2)
    }  # fmt: skip
    cluster = Cluster("c")
    view = ClusterView(1, 1, members, {"n1": 1, "n2": 2}, (1,), (0,), (1,) * 64)
    cluster.update(view, 1, Serving.SERVE)
    return cluster


async def _asked(cluster: Cluster, replicas: list[int] | None, *, resizes: bool = True) -> tuple[int, bool]:
    """The code, and whether something is said of it."""

    async def get(name: str) -> Any:
        return SimpleNamespace(name=name, partitions=1)

    broker = SimpleNamespace(cluster=cluster, topics=SimpleNamespace(get=get))
    partition = api.RequestPartition(partition_index=0, replicas=replicas)
    request = api.Request(
        topics=[api.RequestTopic(name="t", partitions=[partition])], allow_replication_factor_change=resizes
    )
    answer = await api.handle(request, cast(Any, broker), Session(1, "10.0.0.1:1", ""))
    ((found,),) = (topic.partitions for topic in answer.responses)
    return found.error_code, bool(found.error_message)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([1], ErrorCode.NONE),
        ([2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([3], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_only_the_place_that_it_has_is_accepted(replicas: list[int], code: ErrorCode) -> None:
    assert await _asked(_cluster(racks=False), replicas) == (code, code != ErrorCode.NONE)


async def test_a_number_of_replicas_that_may_not_change_is_named() -> None:
    found = await _asked(_cluster(racks=False), [1, 2], resizes=False)
    assert found == (ErrorCode.INVALID_REPLICATION_FACTOR, True)


async def test_the_place_is_that_of_metadata_with_those_that_serve_other_racks() -> None:
    cluster = _cluster(racks=True)
    assert cluster.snapshot.followers("t", 0) == (2,)
    assert await _asked(cluster, [1, 2]) == (ErrorCode.NONE, False)
    assert (await _asked(cluster, [1]))[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
