"""What the internal listener takes, what it refuses, and that one request that waits holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bridge import apis
from bridge.apis import (
    api_versions,
    consumer_group_heartbeat,
    create_acls,
    delete_groups,
    delete_records,
    describe_groups,
    heartbeat,
    join_group,
    list_groups,
    metadata,
)
from bridge.kafka import envelope, frames, message
from bridge.kafka.error_codes import ErrorCode
from bridge.node.orphans import Guard
from bridge.relay.peers import Peer
from bridge.security.acls import Operation, Permission, ResourceType
from tests.apis.wire import ask_at
from tests.relay.envelopes import ask, inner, peer_at
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress


async def _raw(address: str, request: list[Any]) -> bytes:
    """All that a server sends until it hangs up, or the first frame."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.writelines(request)
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            return await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return b""
    finally:
        writer.close()


def _join(group: str, member: str = "") -> join_group.Request:
    protocol = join_group.Protocol(name="range", metadata=b"")
    return join_group.Request(
        group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=60_000, member_id=member,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


async def test_clients_cannot_send_envelopes(one_address: OneAddress) -> None:
    body = message.encode(inner(list_groups.API, list_groups.Request(), 4), 0, True)
    assert await _raw(one_address.direct[0], frames.request(envelope.KEY, 0, 1, "", True, body)) == b""
    assert envelope.KEY not in apis.load()


async def test_the_internal_listener_takes_nothing_else(one_address: OneAddress) -> None:
    body = message.encode(metadata.Request(topics=None), 1, False)
    assert await _raw(one_address.internal[0], frames.request(metadata.API.key, 1, 1, "", False, body)) == b""
    versions = await _raw(one_address.internal[0], frames.request(api_versions.KEY, 0, 9, "", False, b""))
    told = message.decode(api_versions.Response, versions[4:], 0, False)
    assert {one.api_key for one in told.api_keys} == {api_versions.KEY, envelope.KEY}


async def test_what_has_no_owner_is_refused_within_an_envelope(one_address: OneAddress) -> None:
    peer = await peer_at(one_address.internal[0])
    try:
        for what, code in (
            (inner(metadata.API, metadata.Request(topics=None), 1), ErrorCode.UNSUPPORTED_VERSION),
            (inner(heartbeat.API, heartbeat.Request(group_id="", generation_id=0, member_id=""), 4), None),
            (envelope.Request(request_data=b"?" * 20, request_principal=None, client_host_address=b""),
             ErrorCode.UNSUPPORTED_VERSION),
            (envelope.Request(request_data=b"?" * 20, request_principal=None, client_host_address=b"?"),
             ErrorCode.INVALID_REQUEST),
            (envelope.Request(request_data=b"?" * 20, request_principal=b"\0\1?", client_host_address=b""),
             ErrorCode.INVALID_REQUEST),
        ):  # fmt: skip
            answer = await peer.ask(what, lambda answer: None)
            assert (answer.response_data is None) == (code is not None)
            assert answer.error_code == (code or ErrorCode.NONE)
    finally:
        peer.close()


async def test_a_join_that_waits_holds_up_nothing_and_members_have_their_own_address(one_address: OneAddress) -> None:
    group = "waiting"
    peers = [await peer_at(address) for address in one_address.internal]
    try:
        for peer in peers:  # the coordinator is one of them
            told = await ask(peer, join_group.API, _join(group), 5)
            if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                break
        first = await ask(peer, join_group.API, _join(group, told.member_id), 5)
        assert first.error_code == ErrorCode.NONE
        second = (await ask(peer, join_group.API, _join(group), 5)).member_id
        waiting = asyncio.ensure_future(ask(peer, join_group.API, _join(group, second), 5))
        beat = heartbeat.Request(group_id=group, generation_id=first.generation_id, member_id=first.member_id)
        while (await ask(peer, heartbeat.API, beat, 3)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert not waiting.done()
        assert not waiting.done()
        described = await ask(peer, describe_groups.API, describe_groups.Request(groups=[group]), 0)
        assert {member.client_host for member in described.groups[0].members} == {"/10.1.2.3"}
        assert {member.client_id for member in described.groups[0].members} == {"some-client"}
        again = await ask(peer, join_group.API, _join(group, first.member_id), 5)
        assert again.generation_id == (await waiting).generation_id == first.generation_id + 1
    finally:
        for peer in peers:
            peer.close()


async def test_other_nodes_do_not_pass_on_further(one_address: OneAddress) -> None:
    """A node that is asked for what it does not have says so: no request goes in circles."""
    beat = consumer_group_heartbeat.Request(group_id="elsewhere", member_id="m", member_epoch=1)
    codes = []
    for address in one_address.internal:
        peer = await peer_at(address)
        try:
            codes.append((await ask(peer, consumer_group_heartbeat.API, beat, 0)).error_code)
        finally:
            peer.close()
    assert sorted(codes).count(ErrorCode.NOT_COORDINATOR) == len(codes) - 1


@pytest.fixture
def deciding(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneAddress]:
    """Two nodes with an authorizer, of which clients without log-in are super users."""
    kafka = {"authorizer": "kafka", "super_users": "User:ANONYMOUS"}
    directory = tmp_path_factory.mktemp("deciding")
    made = OneAddress(pulsar, pulsar.create_namespace(), guard, directory, 2, overrides={"kafka": kafka})
    try:
        made.start()
        yield made
    finally:
        made.close()


async def _refused(peer: Peer) -> list[int]:
    """What alice is told who may read `mine` alone."""
    groups = describe_groups.Request(groups=["mine", "other"])
    described = (await ask(peer, describe_groups.API, groups, 5)).groups
    joined = await ask(peer, join_group.API, _join("other"), 5)
    deleted = await ask(peer, delete_groups.API, delete_groups.Request(groups_names=["mine"]), 2)
    partition = delete_records.RequestPartition(partition_index=0, offset=0)
    topic = delete_records.RequestTopic(name="t", partitions=[partition])
    records = await ask(peer, delete_records.API, delete_records.Request(topics=[topic], timeout_ms=1000), 2)
    mine, other = sorted(described, key=lambda group: str(group.group_id))
    assert mine.error_code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
    results = (other, joined, *deleted.results, *records.topics[0].partitions)
    return [one.error_code for one in results]


async def test_what_is_passed_on_is_decided_for_the_client_that_asks(deciding: OneAddress) -> None:
    entry = create_acls.Creation(
        resource_type=ResourceType.GROUP, resource_name="mine", principal="User:alice", host="10.1.2.3",
        operation=Operation.READ, permission_type=Permission.ALLOW,
    )  # fmt: skip
    asked = create_acls.Request(creations=[entry])
    created = await asyncio.to_thread(ask_at, deciding.direct[0], create_acls.API, asked)
    assert [one.error_code for one in created.results] == [ErrorCode.NONE]
    group = ErrorCode.GROUP_AUTHORIZATION_FAILED
    for address in deciding.internal:
        peer = await peer_at(address)
        try:
            while True:  # the other node hears of it within a second
                beat = heartbeat.Request(group_id="mine", generation_id=1, member_id="m")
                if (await ask(peer, heartbeat.API, beat, 4)).error_code != group:
                    break
            assert await _refused(peer) == [group, group, group, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        finally:
            peer.close()
