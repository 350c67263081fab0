"""Nodes ask each other for the page: one that is silent is named and holds nothing up; no client is told anything."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer

from bridge import apis
from bridge.http.status import others
from bridge.http.status.alerts import Firing
from bridge.http.status.query import Query
from bridge.kafka.error_codes import ErrorCode
from bridge.relay.peers import Peer
from bridge.relay.questions import enveloped
from bridge.requests.api import Api
from bridge.requests.session import Session
from bridge.security.principal import user
from bridge.standalone.ports import HOST
from bridge.telemetry import log
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress


def ask(node: BridgeThread, view: str, **more: Any) -> dict[str, Any]:
    with urllib.request.urlopen(f"{node.http}/api/state?{urlencode({'view': view, **more})}", timeout=30) as response:  # noqa: S310 - it is ours
        found: dict[str, Any] = json.load(response)["answer"]
    return found


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    settings = settings_for(pulsar, pulsar.create_namespace(), {"cluster": {"internal_listen": f"{HOST}:0"}})
    with started_nodes(settings, 3) as nodes:
        yield nodes


@pytest.fixture
def asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that gave no answer is asked again after a second."""
    monkeypatch.setattr(others, "_AGAIN_SECONDS", 1.0)


@pytest.mark.usefixtures("asked_again_soon")
def test_a_node_that_does_not_answer_is_named_and_holds_nothing_up(nodes: list[BridgeThread]) -> None:
    """Its answer about brokers never comes, as of a node that is frozen."""
    assert until(lambda: {row["node"] for row in ask(nodes[0], "brokers")["table"]["rows"]} == {0, 1, 2})
    asking, silent = nodes[1], nodes[2]
    frozen = asyncio.Event()
    own = silent.server._status.own

    async def never(query: Query) -> object:
        if query.view == "brokers":
            await frozen.wait()
        return await own(query)

    answering(silent, others.api(never))
    reasons = {one["node"]: one["reason"] for one in ask(asking, "brokers")["silent"]}
    assert reasons[silent.node_id] == "it has not answered yet"  # nor was the question given up: it is not waited for

    def others_are_shown() -> bool:
        found = ask(asking, "brokers")
        rows, unheard = ({one["node"] for one in part} for part in (found["table"]["rows"], found["silent"]))
        return rows == {0, 1} and unheard == {silent.node_id}

    assert until(others_are_shown)
    assert until(lambda: "asked in vain" in ask(asking, "brokers")["silent"][0]["reason"])
    silent._loop.call_soon_threadsafe(frozen.set)
    assert until(lambda: not ask(asking, "brokers")["silent"], 60)


def test_one_without_an_internal_listener_says_what_it_takes(pulsar: PulsarAddress) -> None:
    with started_nodes(settings_for(pulsar, pulsar.create_namespace()), 2) as nodes:
        assert until(lambda: len(ask(nodes[0], "nodes")["table"]["rows"]) == 2)
        (silent,) = ask(nodes[0], "groups")["silent"]
        assert "cluster.internal_listen" in silent["reason"]
        assert ask(nodes[0], "nodes")["table"]["rows"][1]["health"] == "no answer"


def answering(node: BridgeThread, api: Api) -> None:
    """Have the node answer questions about its status by this from now on."""
    links = node.server._links
    assert links is not None
    listener = links._listener
    assert listener is not None
    listener._for_nodes = (*listener._for_nodes[:-1], api)
    listener._brokers.clear()


@pytest.mark.usefixtures("asked_again_soon")
def test_a_node_that_tells_another_form_is_named(nodes: list[BridgeThread]) -> None:
    asking, other = nodes[0], nodes[1]
    newer = replace(others.api(other.server._status.own), min_version=others.FORM + 1, max_version=others.FORM + 1)
    try:
        answering(other, newer)
        assert until(lambda: other.node_id in {one["node"] for one in ask(asking, "clients")["silent"]}, 60)
        assert ask(asking, "overview")["overview"]["nodes"] == 3
    finally:
        answering(other, other.server._status.api)
    assert until(lambda: not ask(asking, "clients")["silent"], 60)


FORMS = {
    "overview": {
        "name", "id", "version", "now", "since", "ready", "ready_since", "draining", "connections", "firing", "alerts",
    },
    "topics": {
        "name", "partitions", "counted", "records", "rate", "in_rate", "out_rate", "bytes_in", "bytes_out", "groups",
    },
    "groups": {
        "name", "protocol", "state", "members", "generation", "trend", "partitions", "lag", "unknown", "behind",
        "at_least",
    },
    "clients": {"name", "version", "connections", "requests", "errors", "bytes_in", "bytes_out"},
    "events": {"at", "level", "text", "logger", "fields", "count", "explanation"},
    "brokers": {
        "address", "version", "delay", "answered", "producers", "readers", "waiting", "connections", "state",
    },
}  # fmt: skip
"""What nodes tell each other. **Who changes it counts `others.FORM` up**: pages of two versions meet in an upgrade."""


def test_what_nodes_tell_each_other_is_written_down(nodes: list[BridgeThread]) -> None:
    producer = Producer({"bootstrap.servers": nodes[0].kafka})
    producer.produce("orders", b"value")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": nodes[0].kafka, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(60)
    assert message is not None
    consumer.commit(asynchronous=False)
    log.get("bridge.tests").warning("! denied")
    found: dict[str, set[str]] = {view: set() for view in FORMS}

    def all_is_told() -> bool:
        for node in nodes:
            own = node.server._status
            for view, keys in found.items():
                if view == "overview":
                    keys.update(cast(dict[str, Any], node.call(own.own(Query(view=view)))))
                    continue
                for row in node.call(own._own[view].current()):
                    keys.update(row)
        return found == FORMS

    try:
        assert until(all_is_told, 60), {view: keys ^ FORMS[view] for view, keys in found.items()}
    finally:
        consumer.close()


def test_alerts_are_counted_and_the_first_hundred_told(
    nodes: list[BridgeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = [Firing("BridgeLagGrowing", "warning", f"group {number}", float(number)) for number in range(300)]
    monkeypatch.setattr(nodes[1].server._status._alerts, "firing", lambda: firing)  # whenever it looks
    told = cast(dict[str, Any], nodes[1].call(nodes[1].server._status.own(Query())))
    assert (told["firing"], len(told["alerts"])) == (300, 100)
    overview: dict[str, Any] = {}

    def is_counted() -> bool:
        overview.update(ask(nodes[0], "overview")["overview"])
        return bool(overview["firing"] >= 300)

    assert until(is_counted, 60)
    assert len(overview["alerts"]) == 100


def test_who_is_silent_is_told_to_who_asked(nodes: list[BridgeThread], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another page asks for other details meanwhile."""
    status = nodes[0].server._status
    refresh = status._catalogue.refresh

    async def refreshed() -> None:
        await status.answer(Query(view="groups", item="none"))
        await refresh()

    async def asked(query: Query, seconds: float) -> list[others.Told]:
        return [others.Told(1, "b", None, "it does not answer")]

    monkeypatch.setattr(status._catalogue, "refresh", refreshed)
    monkeypatch.setattr(status._others, "ask", asked)
    found = cast(dict[str, Any], nodes[0].call(status.answer(Query(view="topics", item="none"))))
    assert [one["node"] for one in found["answer"]["silent"]] == [1]


async def told(node: BridgeThread, session: Session | None) -> Any:
    links = node.server._links
    assert links is not None
    peer = Peer(*await asyncio.open_connection(links.endpoint.host, links.endpoint.port))
    try:
        body = b"\x0eview=overview\x00"
        return await peer.ask(
            enveloped(others.api(lambda query: asyncio.sleep(0)), 0, body, "", session), lambda _: None
        )
    finally:
        peer.close()


async def test_no_client_may_ask_it(nodes: list[BridgeThread]) -> None:
    assert b"connections" in bytes((await told(nodes[0], None)).response_data)
    session = Session(1, f"{HOST}:1", "PLAINTEXT", principal=user("admin"))
    answer = await told(nodes[0], session)
    assert (answer.response_data, answer.error_code) == (None, ErrorCode.UNSUPPORTED_VERSION)
    assert others.KEY not in apis.load()
