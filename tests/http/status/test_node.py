"""What a node answers to its page, with a real Pulsar: every view, of all nodes that can be asked."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.groups.store.records import StoredOffset
from bridge.http.server import HttpServer
from bridge.http.status import groups, topics
from bridge.pulsar.admin.rest import RestClient
from bridge.pulsar.connection.broker_connection import BrokerConnection, Delay
from bridge.telemetry import log
from bridge.telemetry.metrics import Lag
from tests.support.bridges import BridgeThread, Overrides, settings_for, started_nodes
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress

RECORDS = 40
READ = 15
"""Records that each group has read, of one partition after the other."""
VIEWS = (
    "overview", "nodes", "brokers", "topics", "groups", "clients", "events", "acls", "users", "quotas", "settings",
)  # fmt: skip


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    """Two nodes that ask each other, a topic of four partitions, a group of each protocol that has read some of it."""
    overrides: Overrides = {"kafka": {"default_partitions": 4}, "cluster": {"internal_listen": "127.0.0.1:0"}}
    settings = settings_for(pulsar, pulsar.create_namespace(), overrides)
    with started_nodes(settings) as nodes:
        bootstrap = ",".join(node.kafka for node in nodes)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", b"value", partition=number % 4)
        assert producer.flush(30) == 0
        consumers = [consumed(bootstrap, protocol) for protocol in ("classic", "consumer")]
        yield nodes
        for consumer in consumers:
            consumer.close()


def consumed(bootstrap: str, protocol: str) -> Consumer:
    """A member of the group of this name that has committed READ records."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"{protocol} group", "group.protocol": protocol,
        "client.id": f"of {protocol}", "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    for _ in range(READ):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    return consumer


def create(node: BridgeThread, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.kafka})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)


def all_are_ready(node: BridgeThread) -> bool:
    return [one["health"] for one in rows(node, "nodes")] == ["Ready"] * 2


def well(node: BridgeThread) -> dict[str, Any]:
    """The head of the page once the first checks are done."""
    for _ in range(600):
        head: dict[str, Any] = ask(node, "overview")["node"]
        if head["ready"]:
            return head
        time.sleep(0.05)
    raise AssertionError(head)


def ask(node: BridgeThread, view: str, **more: Any) -> dict[str, Any]:
    url = f"{node.http}/api/state?{urlencode({'view': view, **more})}"
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - it is ours
        found: dict[str, Any] = json.load(response)
    assert (found["workers"], found["worker"]) == ([], None)
    answer: dict[str, Any] = found["answer"]
    return answer


def rows(node: BridgeThread, view: str, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(node, view, **more)["table"]["rows"]
    return found


def test_the_head_says_who_it_is_and_whether_it_is_well(nodes: list[BridgeThread]) -> None:
    for node in nodes:
        head = well(node)
        assert head["id"] == node.node_id
        assert head["since"] < head["ready_since"] <= head["now"]
        assert not head["draining"]


def test_the_overview_has_every_check_and_the_counters(nodes: list[BridgeThread]) -> None:
    well(nodes[0])
    answer = ask(nodes[0], "overview")
    overview, counters = answer["overview"], answer["counters"]
    assert {one["check"] for one in overview["checks"]} >= {"pulsar", "index", "retention", "writes", "cluster"}
    assert overview["nodes"] == 2
    assert overview["pulsar"].startswith("Pulsar Server")
    assert counters["requests"] > 0
    assert counters["memory"] > 0


def test_each_node_shows_all_nodes(nodes: list[BridgeThread]) -> None:
    for node in nodes:
        found = rows(node, "nodes")
        assert [one["id"] for one in found] == [0, 1]
        assert [one["here"] for one in found] == [number == node.node_id for number in (0, 1)]
        assert sum(one["partition_slots"] for one in found) == 4096
        assert [one["role"] for one in found].count("controller") == 1
        assert until(partial(all_are_ready, node), 60)


def test_brokers_have_their_delay(nodes: list[BridgeThread]) -> None:
    for broker in rows(nodes[0], "brokers"):
        assert 0 < broker["delay"] < 30
        assert broker["answered"] >= 0
        assert broker["state"] == "answers"
        assert broker["version"][0].isdigit()
    assert until(lambda: {one["node"] for one in rows(nodes[0], "brokers")} == {0, 1})


def test_each_node_shows_all_topics_with_the_numbers_of_all(nodes: list[BridgeThread]) -> None:
    create(nodes[0], "unused", 3)
    for node in nodes:
        found: dict[str, Any] = {}

        def all_is_known(node: BridgeThread = node, found: dict[str, Any] = found) -> bool:
            found.update({row["name"]: row for row in rows(node, "topics")})
            orders = found["orders"]
            return bool(
                {"orders", "unused"} <= set(found)
                and (orders["records"], orders["counted"], orders["groups"]) == (RECORDS, 4, 2)
                and found["unused"]["partitions"] == 3
                and orders["size"] is not None
            )

        assert until(all_is_known, 120), found  # a table is shown for as long as a minute
        assert sum(int(one.partition(": ")[2]) for one in found["orders"]["leaders"].split(", ")) == 4
        assert found["orders"]["bytes_in"] > RECORDS
        assert rows(node, "topics", search="ORD")[0]["name"] == "orders"


def test_a_topic_has_its_partitions_configs_and_readers(nodes: list[BridgeThread]) -> None:
    for node in nodes:
        found: dict[str, Any] = {}

        def is_whole(node: BridgeThread = node, found: dict[str, Any] = found) -> bool:
            found.update(ask(node, "topics", item="orders")["item"]["found"])
            ends = [(one["start"], one["end"]) for one in found["partitions"]]
            return bool(ends == [(0, RECORDS // 4)] * 4 and found["configs"] and len(found["readers"]) == 2)

        assert until(is_whole, 60), found
        assert [one["leader"] in (0, 1) for one in found["partitions"]] == [True] * 4
        assert {one["group"] for one in found["readers"]} == {"classic group", "consumer group"}
        assert "cleanup.policy" in {one["name"] for one in found["configs"]}
        assert found["shows_records"] is False
    assert ask(nodes[0], "topics", item="none")["item"]["found"] is None


def test_what_no_node_has_opened_pulsar_is_asked(nodes: list[BridgeThread]) -> None:
    create(nodes[0], "empty", 1)

    def is_known() -> bool:
        found = ask(nodes[1], "topics", item="empty")["item"]["found"]
        return found is not None and [(one["start"], one["end"]) for one in found["partitions"]] == [(0, 0)]

    assert until(is_known, 60)


def test_each_node_shows_all_groups_their_members_and_what_each_has(nodes: list[BridgeThread]) -> None:
    for node in nodes:
        found: dict[str, Any] = {}

        def all_are_there(node: BridgeThread = node, found: dict[str, Any] = found) -> bool:
            found.update({row["name"]: row for row in rows(node, "groups")})
            return set(found) == {"classic group", "consumer group"}

        assert until(all_are_there, 60), found
        for name, row in found.items():
            assert (row["state"], row["members"], row["protocol"]) == ("Stable", 1, name.partition(" ")[0])
            detail: dict[str, Any] = {}

            def whole(node: BridgeThread = node, name: str = name, detail: dict[str, Any] = detail) -> bool:
                detail.update(
                    ask(node, "groups", item=name)["item"]["found"] or {"partitions": [{"lag": None, "committed": 0}]}
                )
                return all(one["lag"] is not None for one in detail["partitions"] if one["committed"] is not None)

            assert until(whole, 60), detail  # that of partitions which the other node leads, too
            assert [(one["client_id"], one["assigned"]) for one in detail["members"]] == [
                (f"of {row['protocol']}", "orders 0-3")
            ]
            assert {one["member"] for one in detail["partitions"]} == {f"of {row['protocol']}"}
            read = [one for one in detail["partitions"] if one["committed"] is not None]
            assert len(detail["partitions"]) == 4
            assert sum(one["committed"] for one in read) == READ
            assert {one["end"] for one in read} == {RECORDS // 4}
            assert all(one["lag"] == one["end"] - one["committed"] for one in read)
        assert ask(node, "groups", item="none")["item"]["found"] is None


def test_the_overview_counts_what_the_cluster_has(nodes: list[BridgeThread]) -> None:
    def is_counted(node: BridgeThread) -> bool:
        overview = ask(node, "overview")["overview"]
        worst = overview["worst"]
        return overview["topics"] >= 1 and overview["groups"] == 2 and worst is not None and worst["lag"] > 0

    for node in nodes:
        assert until(partial(is_counted, node), 60)


def test_events_of_one_kind_are_one_row_and_each_is_in_its_details(nodes: list[BridgeThread]) -> None:
    for number in range(3):
        log.get("bridge.tests").warning("! denied", extra={"principal": f"User:{number}"})
    (row,) = [row for row in rows(nodes[0], "events", search="User:2") if row["text"] == "denied"]
    assert row["count"] >= 3
    found = ask(nodes[0], "events", item="denied")["item"]["found"]
    assert {"principal=User:0", "principal=User:1", "principal=User:2"} <= {one["fields"] for one in found["events"]}


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ([(7, 2.0), (3, 9.0)], {"lag": 10, "unknown": 0, "behind": 9.0, "at_least": False}),
        ([(7, 2.0), (None, None)], {"lag": 7, "unknown": 1, "behind": 2.0, "at_least": True}),
        ([(0, 0.0), (7, None)], {"lag": 7, "unknown": 0, "behind": None, "at_least": True}),
        ([(-5, 0.0), (7, 1.0)], {"lag": 7, "unknown": 0, "behind": 1.0, "at_least": False}),
        ([(None, None), (None, None)], {"lag": None, "unknown": 2, "behind": None, "at_least": True}),
        ([(4, 1.0), None], {"lag": 4, "unknown": 0, "behind": 1.0, "at_least": False}),
    ],
)
async def test_what_is_not_known_of_a_lag_is_in_no_sum(
    known: list[tuple[int | None, float | None] | None], shown: dict[str, Any]
) -> None:
    """None: the partition is gone."""

    def lag(group: str, where: tuple[str, int], offset: int) -> Lag | None:
        found = known[where[1]]
        return None if found is None else Lag(group, *where, offset, *found)

    offsets = {("t", partition): StoredOffset(5) for partition in range(len(known))}
    services = SimpleNamespace(store=SimpleNamespace(stored=lambda group: offsets), lag=SimpleNamespace(lag=lag))
    assert await groups._lag(cast(Any, services), "g") == {"partitions": len(known), **shown}


def test_clients_are_told_apart_by_their_software(nodes: list[BridgeThread]) -> None:
    for node in nodes:  # those of both
        librdkafka = [row for row in rows(node, "clients") if "confluent" in row["name"]]
        assert librdkafka
        assert sum(row["connections"] for row in librdkafka) > 0
        assert sum(row["requests"] for row in librdkafka) > 0
        assert sum(row["bytes_out"] for row in librdkafka) > 0


@pytest.mark.parametrize(
    "query", ["view=none", "view=topics&sort=secret", "view=nodes&item=x", "view=topics&page=x", "a=1"]
)
def test_what_there_is_not_is_refused_in_words(nodes: list[BridgeThread], query: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{nodes[0].http}/api/state?{query}", timeout=30)  # noqa: S310 - it is ours
    with refused.value as error:
        assert error.code == 400
        assert json.load(error)["error"]


def test_looking_asks_pulsar_for_the_list_of_topics_and_not_for_each_at_every_look(
    bridge_with: Callable[..., BridgeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = bridge_with()  # with clients it would ask for them
    looking: ContextVar[bool] = ContextVar("looking", default=False)  # tasks that looking begins inherit it
    answer = HttpServer._answer

    async def answer_looking(*arguments: Any) -> Any:
        looking.set(True)
        return await answer(*arguments)

    producer = Producer({"bootstrap.servers": quiet.kafka})
    producer.produce("orders", b"value")
    assert producer.flush(30) == 0
    del producer
    well(quiet)
    asked: list[object] = []
    monkeypatch.setattr(HttpServer, "_answer", answer_looking)
    for of, name in ((BrokerConnection, "request"), (RestClient, "_send_request")):
        monkeypatch.setattr(of, name, noting(getattr(of, name), asked, looking))
    for _ in range(50):
        for view in VIEWS:
            ask(quiet, view)
        assert ask(quiet, "topics", item="orders")["item"]["found"]
        ask(quiet, "groups", item="none")
    own = quiet.server.client.connections()
    # the list, the topic's size, its configs (defaults and own ones), its end: each once in a while
    assert len([who for who in asked if who in own or who is quiet.server.admin]) < 25
    assert until(lambda: is_ready(quiet) and bool(asked))  # which does ask


def test_a_list_of_topics_that_comes_late_is_shown_at_once(
    bridge_with: Callable[..., BridgeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the page knows the topics alone that some node has opened."""
    slow = bridge_with()
    slow.call(slow.server.admin.create_partitioned(f"persistent://{slow.namespace}/unused", 1))
    monkeypatch.setattr(topics, "_NAMES_PATIENCE", 0.0)
    catalogue, names = slow.server._status._catalogue, slow.server.topics.names
    listed = asyncio.Event()

    async def late() -> list[str]:
        await listed.wait()
        return await names()

    monkeypatch.setattr(slow.server.topics, "names", late)
    assert rows(slow, "topics", search="unused") == []
    assert ask(slow, "overview")["overview"]["topics"] is None
    slow._loop.call_soon_threadsafe(listed.set)
    assert until(lambda: catalogue._naming is None)
    assert [row["name"] for row in rows(slow, "topics", search="unused")] == ["unused"]


def test_it_asks_nothing_where_what_it_asks_is_closed(
    bridge_with: Callable[..., BridgeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question to Pulsar that begins after that would outlive the node."""
    stopping = bridge_with()
    status, close = stopping.server._status, stopping.server.admin.close
    closed: list[bool] = []

    async def noted() -> None:
        closed.append(status.is_closed)
        await close()

    monkeypatch.setattr(stopping.server.admin, "close", noted)
    stopping.stop()
    assert closed == [True]


def is_ready(node: BridgeThread) -> bool:
    with urllib.request.urlopen(f"{node.http}/readyz", timeout=30) as response:  # noqa: S310 - it is ours
        return bool(response.status == 200)


def noting(request: Callable[..., Any], asked: list[object], when: ContextVar[bool]) -> Callable[..., Any]:
    """The method, which also notes who was asked to do it while that is set."""

    def noted(self: object, *arguments: Any, **more: Any) -> Any:
        if when.get():
            asked.append(self)
        return request(self, *arguments, **more)

    return noted


def test_a_delay_is_smoothed(nodes: list[BridgeThread]) -> None:
    (connection, *_) = nodes[0].server.client.connections()
    delay = Delay(connection.broker)
    assert delay.seconds is None
    delay.answered(10.0, 10.8)
    assert delay.seconds == pytest.approx(0.8)
    delay.answered(20.0, 20.0)
    assert delay.seconds == pytest.approx(0.7)
    assert delay.answered_at == 20.0
