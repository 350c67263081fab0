"""What nodes with addresses of their own ask each other: about transactions, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    heartbeat,
    list_groups,
    list_transactions,
    metadata,
    write_txn_markers,
)
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.config import INTERNAL
from bridge.errors import KafkaError
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.relay.peers import Peer, Peers
from bridge.relay.questions import Questions, answered, decoded, enveloped
from bridge.requests.api import Api
from bridge.requests.features import SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION
from bridge.requests.session import Session
from bridge.security.principal import user
from bridge.standalone.ports import HOST
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress

SUPER_USER = Session(1, f"{HOST}:1", "PLAINTEXT", principal=user("admin"))


@pytest.fixture(scope="module")
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    """One that others could ask, in which nobody else may do anything."""
    overrides = {
        "cluster": {"internal_listen": f"{HOST}:0"},
        "kafka": {"authorizer": "kafka", "super_users": "User:admin"},
    }
    made = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), overrides))
    made.start()
    yield made
    made.stop()


async def told(bridge: BridgeThread, api: Api, request: Any, version: int, session: Session | None = None) -> Any:
    """The answer to a node, or to a client of it; the error of an Envelope without one."""
    links = bridge.server._links
    assert links is not None
    peer = Peer(*await asyncio.open_connection(links.endpoint.host, links.endpoint.port))
    try:
        body = message.encode(request, version, api.is_flexible(version))
        response = await peer.ask(enveloped(api, version, body, "", session), lambda answer: None)
        data = answered(response, api, version)
        return ErrorCode(response.error_code) if data is None else decoded(api, data, version)
    finally:
        peer.close()


def questions() -> list[tuple[Api, Any]]:
    transaction = add_partitions_to_txn.RequestTransaction(
        transactional_id="t", producer_id=1, producer_epoch=0, topics=[]
    )
    return [
        (add_partitions_to_txn.API, add_partitions_to_txn.Request(transactions=[transaction])),
        (
            add_offsets_to_txn.API,
            add_offsets_to_txn.Request(transactional_id="t", producer_id=1, producer_epoch=0, group_id="g"),
        ),
        (write_txn_markers.API, write_txn_markers.Request(markers=[])),
    ]


async def test_a_node_asks_about_transactions_by_no_client_s_rights(bridge: BridgeThread) -> None:
    for api, request in questions():
        answer = await told(bridge, api, request, api.max_version)
        assert answer != ErrorCode.UNSUPPORTED_VERSION
        assert getattr(answer, "error_code", 0) not in (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        (metadata.API, metadata.Request(topics=None)),
        (list_groups.API, list_groups.Request()),
        (list_transactions.API, list_transactions.Request(state_filters=[], producer_id_filters=[])),
        (heartbeat.API, heartbeat.Request(group_id="g", generation_id=0, member_id="m")),
    ],
    ids=lambda value: value.name if isinstance(value, Api) else "",
)
async def test_a_node_asks_for_nothing_else(bridge: BridgeThread, api: Api, request_: Any) -> None:
    assert await told(bridge, api, request_, api.max_version) is ErrorCode.UNSUPPORTED_VERSION


async def test_no_client_s_requests_are_taken_where_each_node_has_its_address(bridge: BridgeThread) -> None:
    """Whoever reaches the listener could else name himself a super user."""
    asked = [*questions(), (list_groups.API, list_groups.Request())]
    for api, request in asked:
        found = await told(bridge, api, request, api.max_version, SUPER_USER)
        assert found is ErrorCode.UNSUPPORTED_VERSION, api.name


@pytest.mark.parametrize(("version", "lowest"), [(0, None), (2, None), (3, 1), (4, 0)])
def test_clients_are_told_of_the_features(bridge: BridgeThread, version: int, lowest: int | None) -> None:
    answer = ask(bridge, api_versions.API, api_versions.Request(), version)
    supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
    finalized = [(one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features]
    told_of = lowest is not None
    assert (
        supported
        == [(TRANSACTION_VERSION, lowest, 2), (SHARE_VERSION, lowest, 1), (STREAMS_VERSION, lowest, 1)] * told_of
    )
    assert finalized == [(TRANSACTION_VERSION, 2, 2), (SHARE_VERSION, 1, 1), (STREAMS_VERSION, 1, 1)] * told_of
    assert (answer.finalized_features_epoch > 0) is told_of


async def test_a_node_that_cannot_be_asked_is_an_error_that_clients_try_again() -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), HOST, 0)  # which never answers
    silent = server.sockets[0].getsockname()[1]
    endpoints = {1: (), 2: (Endpoint(INTERNAL, HOST, silent),), 3: (), 4: (Endpoint(INTERNAL, HOST, 1),)}
    members = {id_: NodeRegistration(f"n{id_}", 1, id_, where, since=1) for id_, where in endpoints.items()}
    nodes = Cluster("c")
    nodes.update(ClusterView(1, 1, members, {}, (1,), (1,), (1, 2, 3, 4)), 1, Serving.SERVE)
    asked = Questions(nodes, Peers(nodes))
    assert [asked.coordinator(slot) for slot in range(5)] == [None, 2, 3, 4, None]
    api, request = questions()[1]
    for node in (2, 3, 4, 5):
        with pytest.raises(KafkaError) as raised:
            await asked.ask(node, api, request, 4)
        assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    asked.peers.close()
    for writer in writers:
        writer.close()
    server.close()
