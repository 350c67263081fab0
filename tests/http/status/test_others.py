"""Nodes ask each other for the page: one that is silent is named and holds nothing up; no client is told anything."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from bridge import apis
from bridge.http.status import others
from bridge.http.status.query import Query
from bridge.kafka.error_codes import ErrorCode
from bridge.relay.peers import Peer
from bridge.relay.questions import enveloped
from bridge.requests.session import Session
from bridge.security.principal import user
from bridge.standalone.ports import HOST
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress

QUESTION_SECONDS = 2.0
"""After so many a node gives up a question to another one."""


def ask(node: BridgeThread, view: str, **more: Any) -> dict[str, Any]:
    with urllib.request.urlopen(f"{node.http}/api/state?{urlencode({'view': view, **more})}", timeout=30) as response:  # noqa: S310 - it is ours
        found: dict[str, Any] = json.load(response)["answer"]
    return found


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    settings = settings_for(pulsar, pulsar.create_namespace(), {"cluster": {"internal_listen": f"{HOST}:0"}})
    with started_nodes(settings, 3) as nodes:
        yield nodes


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

    links = silent.server._links
    assert links is not None
    listener = links._listener
    assert listener is not None
    listener._for_nodes = (*listener._for_nodes[:-1], others.api(never))
    listener._brokers.clear()
    began = time.monotonic()
    found = ask(asking, "brokers")
    assert time.monotonic() - began < QUESTION_SECONDS  # it is not waited for
    assert {row["node"] for row in found["table"]["rows"]} == {0, 1}
    assert [one["node"] for one in found["silent"]] == [silent.node_id]
    assert until(lambda: "asked in vain" in ask(asking, "brokers")["silent"][0]["reason"])
    silent._loop.call_soon_threadsafe(frozen.set)
    assert until(lambda: not ask(asking, "brokers")["silent"], 60)


def test_one_without_an_internal_listener_says_what_it_takes(pulsar: PulsarAddress) -> None:
    with started_nodes(settings_for(pulsar, pulsar.create_namespace()), 2) as nodes:
        assert until(lambda: len(ask(nodes[0], "nodes")["table"]["rows"]) == 2)
        (silent,) = ask(nodes[0], "groups")["silent"]
        assert "cluster.internal_listen" in silent["reason"]
        assert ask(nodes[0], "nodes")["table"]["rows"][1]["health"] == "no answer"


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
