"""While Pulsar is away, a coordinator's clients are told what they ask again after, whatever topics they name.

Java's consumer and its transactional producer take what a leader answers then for final, and are lost.
"""

import uuid
from typing import Any

from bridge.apis import add_partitions_to_txn, offset_commit, offset_fetch, txn_offset_commit
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from bridge.requests.session import Session
from tests.schedules.explorer import schedules
from tests.schedules.kafka import Client
from tests.schedules.world import Bridge, World

_ASKED_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
)  # fmt: skip


def partition() -> Any:
    return offset_commit.RequestPartition(partition_index=0, committed_offset=5)


def requests(topic_id: uuid.UUID) -> list[tuple[Api, Any, int]]:
    """Requests of topics that this node does not know yet, and their versions."""
    of_txn = txn_offset_commit.RequestPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    return [
        (
            offset_commit.API,
            offset_commit.Request(
                group_id="g", topics=[offset_commit.RequestTopic(topic_id=topic_id, partitions=[partition()])]
            ),
            10,
        ),
        (
            offset_fetch.API,
            offset_fetch.Request(
                groups=[
                    offset_fetch.RequestGroup(
                        group_id="g", topics=[offset_fetch.Topic(topic_id=topic_id, partition_indexes=[0])]
                    )
                ]
            ),
            10,
        ),
        (
            txn_offset_commit.API,
            txn_offset_commit.Request(
                transactional_id="x", group_id="g", producer_id=1, producer_epoch=0,
                topics=[txn_offset_commit.RequestTopic(name="t", partitions=[of_txn])],
            ),
            3,
        ),
        (
            add_partitions_to_txn.API,
            add_partitions_to_txn.Request(
                v3_and_below_transactional_id="x",
                v3_and_below_topics=[add_partitions_to_txn.RequestTopic(name="t", partitions=[0])],
            ),
            3,
        ),
    ]  # fmt: skip


def errors_in(answer: Any) -> set[int]:
    """All that an answer tells."""
    found = set()
    if isinstance(answer, list):
        for one in answer:
            found |= errors_in(one)
    elif hasattr(answer, "__dataclass_fields__"):
        for name in answer.__dataclass_fields__:
            value = getattr(answer, name)
            found |= {value} if name.endswith("error_code") else errors_in(value)
    return found


async def told(bridge: Bridge, api: Api, request: Any, version: int) -> set[int]:
    """The errors that the client is told."""
    session = Session(1, "/10.0.0.9:1", "PLAINTEXT", api_version=version)
    try:
        answer = await api.handle(request, bridge.handlers, session)
    except KafkaError as error:
        answer = api.failure(request, error.code, "", version)
    if hasattr(answer, "future"):
        answer = answer.make(await answer.future)
    return errors_in(answer)


@schedules(6)
async def test_clients_of_coordinators_ask_again_while_pulsar_does_not_tell_which_topics_there_are(
    world: World,
) -> None:
    first = await world.started(groups=True)
    assert await Client(world, first).create("t") == 0
    topic = await first.topics.get("t")
    assert topic is not None
    await first.stop()
    bridge = await world.started(groups=True)
    await world.sleep(2)
    world.network.cut("")
    try:
        for api, request, version in requests(topic.id):
            codes = await told(bridge, api, request, version) - {0}
            assert codes and codes <= set(_ASKED_AGAIN), (api.name, codes)
    finally:
        world.network.join("")
