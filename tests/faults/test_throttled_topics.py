"""A topic that Pulsar throttles slows its own clients; no others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import list_offsets, produce
from bridge.apis.list_offsets import LATEST
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.produce_wire import Request, RequestPartition, RequestTopic
from tests.apis.wire import Connection, ask
from tests.contract.log import Log
from tests.faults import throttled_load
from tests.faults.processes import resident_bytes
from tests.faults.throttled_load import Waits
from tests.hostile.measure import Peak
from tests.support.bridges import BridgeChild, BridgeThread
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

_RECORDS = 200
_VERSION = 9


def _records(rate: int) -> dict[str, int]:
    return {"publishThrottlingRateInMsg": rate, "publishThrottlingRateInByte": -1}


def _produce(topic: str) -> Request:
    records = [Record(at, 1_700_000_000_000, None, b"x" * 100, []) for at in range(_RECORDS)]
    batch = build_batch(records, Rebuild(0, len(records), 1_700_000_000_000, own=True))
    partition = RequestPartition(index=0, records=batch)
    return Request(acks=-1, timeout_ms=60_000, topic_data=[RequestTopic(name=topic, partition_data=[partition])])


@pytest.mark.parametrize(
    ("of_namespace", "rate"),
    [
        (False, _records(1)),
        pytest.param(
            False, {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 100}, marks=pytest.mark.soak
        ),
        (True, _records(1)),
    ],
    ids=["records of a topic", "bytes of a topic", "records of a namespace's topics"],
)
def test_other_topics_do_not_wait_for_one_above_its_publish_rate(
    bridge_with: Callable[..., BridgeThread],
    pulsar: PulsarAddress,
    of_namespace: bool,
    rate: dict[str, int],
) -> None:
    """The broker does not read the connection that the topic's records came on: for minutes here.

    The bridge does not wait for its answers either when it stops.
    """
    namespace = pulsar.create_namespace()
    bridge = bridge_with(in_namespace=namespace, pulsar={"operation_timeout_seconds": 600.0})
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("noisy", "other")]).values():
        made.result(30)
    with Connection(bridge.kafka) as noisy, Log(bridge.kafka, "other") as other:

        def is_throttled() -> bool:
            noisy.send(produce.API, _produce("noisy"), _VERSION)
            stats = pulsar.admin("GET", f"persistent/{namespace}/noisy-partition-0/stats")
            assert isinstance(stats, dict)
            return int(stats["publishRateLimitedTimes"]) > 0

        noisy.ask(produce.API, _produce("noisy"), _VERSION)
        if of_namespace:
            pulsar.admin("POST", f"namespaces/{namespace}/publishRate", rate)
        else:
            pulsar.admin("POST", f"persistent/{namespace}/noisy/publishRate", rate)
        asyncio.run(until(is_throttled))  # the broker is told of the policy in the background
        for number in range(3):
            noisy.send(produce.API, _produce("noisy"), _VERSION)
            assert other.write([b"other"]) == [number]
        admin.create_topics([NewTopic("new", 1, 1)])["new"].result(30)
        wanted = list_offsets.RequestTopic(
            name="new", partitions=[list_offsets.RequestPartition(partition_index=0, timestamp=LATEST)]
        )
        answer = ask(bridge, list_offsets.API, list_offsets.Request(replica_id=-1, topics=[wanted]))
        assert answer.topics[0].partitions[0].offset == 0
        assert [message.value() for message in other.read(0)] == [b"other"] * 3
        waiting = {topic for topic, _ in bridge.server.client.waiting_topics()}
        assert waiting == {f"persistent://{namespace}/noisy"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("throttled", "way", "limit"),
    [
        *((throttled, "publishRate", _records(rate)) for throttled in (1, 10, 100) for rate in (10, 100, 1000)),
        (10, "publishRate", {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 1000}),
        (10, "namespace's publishRate", _records(10)),
    ],
)
def test_a_thousand_topics_beside_throttled_ones(
    bridge_process: Callable[..., BridgeChild], pulsar: PulsarAddress, throttled: int, way: str, limit: dict[str, int]
) -> None:
    """`pytest -s` shows how long other topics wait: quiet, beside the throttled ones, and when those have gone.

    A namespace's rate is one for each of its topics: those that are quiet are below it.
    """
    namespace = pulsar.create_namespace()
    bridge = bridge_process(in_namespace=namespace)
    quiet = [f"quiet-{number}" for number in range(1000 - throttled)]
    noisy = [f"noisy-{number}" for number in range(throttled)]

    async def phases() -> list[Waits]:
        await throttled_load.create(bridge.kafka, quiet + noisy)
        if way == "namespace's publishRate":
            pulsar.admin("POST", f"namespaces/{namespace}/publishRate", limit)
        else:
            for topic in noisy:
                await asyncio.to_thread(pulsar.admin, "POST", f"persistent/{namespace}/{topic}/{way}", limit)
        load = partial(throttled_load.produce_quietly, bridge.kafka, quiet, 200.0)
        found = [await load(5.0), await load(20.0)]
        loud = throttled_load.Noisy()
        await loud.start(bridge.kafka, noisy)
        found.append(await load(20.0))
        loud.stop()
        assert loud.answered
        return [*found, await load(5.0)]

    memory = resident_bytes(bridge.pid)
    with Peak(bridge.pid) as peak:
        _, before, beside, after = asyncio.run(phases())
    grown = (peak.bytes - memory) / 2**20
    print(f"\n{throttled} of 1,000 topics with {way} {limit}: {grown:+.0f} MiB")
    print(f"  before  {before}\n  beside  {beside}\n  after   {after}")
    assert not before.errors + beside.errors + after.errors
