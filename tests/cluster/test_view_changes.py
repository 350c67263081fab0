"""What a node lets go of and takes when the view changes: in a list, and between two bridges on a real Pulsar."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.cluster import Cluster, view_changes
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import NO_NODE, ClusterView, Endpoint, NodeRegistration
from bridge.cluster.one_broker import OneBroker
from bridge.cluster.view_changes import TurningAway, ViewFollower
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

SLOTS = 8


class Recorder:
    """Stands in for topics and groups: what they were told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def lead_by(self, lead: ViewFollower) -> None:
        self.leads, self.has_moved = lead.leads, lead.has_moved

    def hold(self) -> None:
        self.told.append("hold")

    def proceed(self) -> None:
        self.told.append("proceed")

    def hand_over(self, is_lost: Callable[[str, int], bool], *, flush: bool) -> None:
        lost = [partition for partition in range(SLOTS) if is_lost("t", partition)]
        self.told.append(f"hand over {len(lost)}{' after their receipts' if flush else ''}")

    def assign(self, slots: Collection[int], orphaned: Collection[int]) -> None:
        self.told.append(f"groups {sorted(slots)}")

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


def view(version: int, owners: tuple[int, ...], *ids: int) -> ClusterView:
    nodes = {id_: NodeRegistration(f"n{id_}", 1, id_, (Endpoint("PLAINTEXT", "h", id_),), since=1) for id_ in ids}
    return ClusterView(version, ids[0], nodes, {}, owners, (1,) * SLOTS, owners[:2])


ALL, HALF = (1,) * SLOTS, (1, 2) * (SLOTS // 2)


def moved(recorder: Recorder) -> int:
    return sum(recorder.has_moved("t", partition) for partition in range(SLOTS))


@pytest.fixture
async def node() -> tuple[Cluster, Recorder]:
    cluster, recorder = Cluster("c"), Recorder()
    ViewFollower(cluster, recorder, recorder.assign)
    cluster.update(view(1, ALL, 1), 1, Serving.SERVE)
    assert recorder.take() == ["hand over 0 after their receipts", "proceed", "groups [0, 1]"]
    return cluster, recorder


async def test_what_others_lead_is_handed_over_and_what_comes_back_is_led_again(node: tuple[Cluster, Recorder]) -> None:
    cluster, recorder = node
    cluster.update(view(2, HALF, 1, 2), 1, Serving.SERVE)
    assert recorder.take() == ["hand over 4 after their receipts", "proceed", "groups [0]"]
    assert sum(recorder.leads("t", partition) for partition in range(SLOTS)) == 4
    cluster.update(view(3, HALF, 1, 2), 1, Serving.SERVE)
    assert recorder.take() == ["proceed", "groups [0]"]
    assert not any(recorder.has_moved("t", one) for one in range(SLOTS) if recorder.leads("t", one))
    cluster.update(view(4, ALL, 1), 1, Serving.SERVE)
    assert recorder.take() == ["hand over 0 after their receipts", "proceed", "groups [0, 1]"]
    assert moved(recorder) == 4


async def test_after_a_pause_nothing_is_sent_before_it_is_known_what_is_lost(
    node: tuple[Cluster, Recorder],
) -> None:
    cluster, recorder = node
    cluster.update(view(1, ALL, 1), 1, Serving.HOLD)
    assert recorder.take() == ["hold"]
    cluster.update(view(2, HALF, 1, 2), 1, Serving.HOLD)
    assert recorder.take() == ["hold", "hand over 4 after their receipts", "groups [0]"]
    cluster.update(view(2, HALF, 1, 2), 1, Serving.SERVE)
    assert recorder.take() == ["proceed"]


async def test_a_node_that_is_cut_off_gives_up_everything(node: tuple[Cluster, Recorder]) -> None:
    cluster, recorder = node
    cluster.update(view(1, ALL, 1), 1, Serving.REFUSE)
    assert recorder.take() == ["hold", "hand over 8"]
    cluster.update(view(1, ALL, 1), 1, Serving.SERVE)
    assert recorder.take() == ["proceed"]


@pytest.mark.parametrize("serving", [Serving.SERVE, Serving.HOLD, Serving.REFUSE])
async def test_what_the_former_life_of_a_node_led_has_moved(serving: Serving) -> None:
    """Batches may be on their way to a node that is killed and is back under its name before it is removed."""
    cluster, recorder = Cluster("c"), Recorder()
    ViewFollower(cluster, recorder, recorder.assign)
    cluster.update(view(1, HALF, 1, 2), NO_NODE, Serving.REFUSE)  # the log is read
    cluster.update(view(2, HALF, 1, 2), 1, serving)  # it is admitted
    cluster.update(view(2, HALF, 1, 2), 1, Serving.SERVE)
    assert moved(recorder) == SLOTS


async def test_nothing_has_moved_to_the_first_node_of_a_namespace() -> None:
    cluster, recorder = Cluster("c"), Recorder()
    ViewFollower(cluster, recorder, recorder.assign)
    cluster.update(ClusterView(), NO_NODE, Serving.REFUSE)
    cluster.update(view(1, ALL, 1), 1, Serving.REFUSE)
    cluster.update(view(1, ALL, 1), 1, Serving.SERVE)
    assert moved(recorder) == 0


async def test_behind_one_address_a_node_serves_all_and_knows_what_others_lead_or_just_led() -> None:
    cluster, recorder = Cluster("c"), Recorder()
    ViewFollower(OneBroker(cluster, Endpoint("PLAINTEXT", "h", 1)), recorder, recorder.assign, cluster)
    cluster.update(view(1, HALF, 1, 2), 1, Serving.SERVE)
    assert all(recorder.leads("t", partition) for partition in range(SLOTS))
    assert moved(recorder) == 4  # what comes here may be under way to the other, too
    cluster.update(view(2, ALL, 1), 1, Serving.SERVE)
    assert moved(recorder) == 4
    recorder.take()
    cluster.update(view(3, ALL, 1), 1, Serving.SERVE)
    assert recorder.take() == ["proceed", "groups [0, 1]"]


async def test_another_namespace_that_comes_later_is_given_what_is_led_and_held_now() -> None:
    cluster, own = Cluster("c"), Recorder()
    follower = ViewFollower(cluster, own, own.assign)
    cluster.update(view(1, ALL, 1), 1, Serving.SERVE)
    cluster.update(view(2, HALF, 1, 2), 1, Serving.HOLD)
    other = Recorder()
    follower.add(other, other.assign)
    assert other.take() == ["hold", "groups [0]"]
    assert [other.leads("t", partition) for partition in range(SLOTS)] == [
        own.leads("t", partition) for partition in range(SLOTS)
    ]
    own.take()
    cluster.update(view(3, ALL, 1), 1, Serving.SERVE)
    assert own.take() == other.take() == ["hand over 0 after their receipts", "proceed", "groups [0, 1]"]
    assert moved(other) == 4
    third = Recorder()
    follower.add(third, third.assign)
    assert third.take() == ["groups [0, 1]"]
    follower.remove(other, other.assign)
    cluster.update(view(4, HALF, 1, 2), 1, Serving.SERVE)
    assert own.take() == third.take() == ["hand over 4 after their receipts", "proceed", "groups [0]"]
    assert other.take() == []


async def test_clients_are_turned_away_while_the_node_is_cut_off_and_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_changes, "_AGAIN_SECONDS", 0.02)
    cluster = Cluster("c")
    times: list[float] = []
    loop = asyncio.get_running_loop()
    turning_away = TurningAway(cluster, lambda: times.append(loop.time()))
    cluster.update(view(1, HALF, 1, 2), 1, Serving.REFUSE)
    assert times == []  # it has not served yet
    cluster.update(view(1, HALF, 1, 2), 1, Serving.SERVE)
    cluster.update(view(1, HALF, 1, 2), 1, Serving.HOLD)
    assert times == []
    cluster.update(view(1, HALF, 1, 2), 1, Serving.REFUSE)
    assert len(times) == 1
    cluster.update(view(2, HALF, 1, 2), 1, Serving.REFUSE)  # the same cut
    assert len(times) == 1
    await until(lambda: len(times) >= 4)
    cluster.update(view(3, HALF, 1, 2), 1, Serving.SERVE)
    so_far = len(times)
    waits = [after - before for before, after in pairwise(times[:4])]
    assert all(wait > least for wait, least in zip(waits, (0.019, 0.039, 0.079), strict=True))
    await asyncio.sleep(0.02 * 2**so_far)  # longer than the next wait would be
    assert len(times) == so_far
    cluster.update(view(3, HALF, 1, 2), 1, Serving.REFUSE)
    assert len(times) == so_far + 1
    turning_away.close()
    cluster.update(view(4, HALF, 1, 2), 1, Serving.SERVE)
    cluster.update(view(4, HALF, 1, 2), 1, Serving.REFUSE)
    assert len(times) == so_far + 1


# ---- on a real Pulsar ------------------------------------------------------------------------------------------------


@contextmanager
def bridge_on(pulsar: PulsarAddress, namespace: str) -> Iterator[BridgeThread]:
    bridge = BridgeThread(settings_for(pulsar, namespace))
    bridge.start()
    try:
        yield bridge
    finally:
        bridge.stop()


def open_partitions(bridge: BridgeThread, topic: str) -> set[int]:
    async def find() -> set[int]:
        return {index for index in range(12) if bridge.server.topics.opened(topic, index) is not None}

    return bridge.call(find())


def led(bridge: BridgeThread, topic: str) -> set[int]:
    return {index for index in range(12) if bridge.server.topics.leads(topic, index)}


def group_slots(bridge: BridgeThread) -> set[int]:
    return set(bridge.server.store.owned_slots())


def committed(consumer: Consumer, where: list[TopicPartition]) -> list[TopicPartition]:
    """librdkafka looks for the new coordinator, and has its user ask again."""
    for _ in range(100):
        try:
            found: list[TopicPartition] = consumer.committed(where, 30)
            return found
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.NOT_COORDINATOR
    raise AssertionError("the group's coordinator was not found")


async def test_two_bridges_share_partitions_and_groups(pulsar: PulsarAddress) -> None:
    namespace = pulsar.create_namespace()
    everything = set(range(12))
    with bridge_on(pulsar, namespace) as one:
        admin = AdminClient({"bootstrap.servers": one.kafka})
        admin.create_topics([NewTopic("t", 12, 1)])["t"].result(30)
        producer = Producer({"bootstrap.servers": one.kafka, "enable.idempotence": True})
        failed: list[KafkaError] = []
        note = lambda error, _: failed.append(error) if error else None  # noqa: E731
        for index in everything:
            producer.produce("t", b"1", partition=index, on_delivery=note)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": one.kafka, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("t", index, 1) for index in everything], asynchronous=False)
        assert open_partitions(one, "t") == everything
        with bridge_on(pulsar, namespace) as two:
            await until(lambda: len(led(two, "t")) in (5, 6, 7) and led(one, "t") == everything - led(two, "t"))
            await until(lambda: open_partitions(one, "t") == led(one, "t"))
            await until(lambda: len(group_slots(two)) == len(group_slots(one)) == one.server.store.slots // 2)
            assert not group_slots(one) & group_slots(two)
            for index in everything:
                producer.produce("t", b"2", partition=index, on_delivery=note)
            assert producer.flush(30) == 0
            assert open_partitions(two, "t") == led(two, "t")
            found = committed(consumer, [TopicPartition("t", index) for index in everything])
            assert [one.offset for one in found] == [1] * 12
        await until(lambda: led(one, "t") == everything and len(group_slots(one)) == one.server.store.slots)
        for index in everything:
            producer.produce("t", b"3", partition=index, on_delivery=note)
        assert producer.flush(30) == 0
        assert not failed
        ends = [consumer.get_watermark_offsets(TopicPartition("t", index), 30) for index in everything]
        assert ends == [(0, 3)] * 12
        consumer.close()
