"""Hostile bytes of many kinds: refused at once, without harm to memory, to neighbours or to what is stored."""

from __future__ import annotations

import random
import secrets
import socket
import struct
from contextlib import ExitStack, suppress

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.processes import open_files
from tests.faults.topics import create
from tests.fuzz import mutations, wire
from tests.fuzz.canary import GROWTH, Canary
from tests.fuzz.inputs import BATCHES, NAMES, NOT_KAFKA
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PulsarAddress

pytestmark = pytest.mark.usefixtures("canary")

# A request within kafka.max_request_bytes is received whole before it can be refused.
one_whole_request = pytest.mark.parametrize("canary", [(100 << 20) + GROWTH], indirect=True, ids=["100 MiB"])


@pytest.mark.parametrize("kind", NOT_KAFKA)
def test_what_is_no_request_closes_the_connection(target: BridgeChild, kind: str) -> None:
    assert wire.ask(target.kafka, NOT_KAFKA[kind]) is None


@pytest.mark.parametrize("key", [-1, 4, 999, 32767])
def test_unknown_apis_close_the_connection(target: BridgeChild, key: int) -> None:
    assert wire.ask(target.kafka, wire.framed(wire.header(key, 0, flexible=False) + bytes(20))) is None


def test_api_versions_too_new_is_answered_with_35_in_v0(target: BridgeChild) -> None:
    answer = wire.ask(target.kafka, wire.framed(wire.header(18, 99, flexible=True) + bytes(8)))
    assert answer is not None and struct.unpack_from(">ih", answer) == (1, 35)


@pytest.mark.parametrize("count", [-2, 1 << 30, (1 << 31) - 1])
def test_counts_that_lie_are_refused(target: BridgeChild, count: int) -> None:
    for key, version in ((3, 1), (2, 1)):
        lead = b"" if key == 3 else struct.pack(">i", -1)
        body = wire.header(key, version, flexible=False) + lead + struct.pack(">i", count) + bytes(16)
        assert wire.ask(target.kafka, wire.framed(body)) is None


def test_claims_of_many_take_no_memory(target: BridgeChild) -> None:
    with ExitStack() as opened:
        for _ in range(60):
            stranger = opened.enter_context(wire.connect(target.kafka))
            stranger.sendall(struct.pack(">i", 100 * 2**20) + bytes(1024))
        assert wire.ask(target.kafka, wire.api_versions_request()) is not None


def test_names_reach_nothing_outside(target: BridgeChild, pulsar: PulsarAddress, canary: Canary) -> None:
    before = everything(pulsar)
    for name in NAMES:
        error = wire.ask(target.kafka, wire.produce(name, wire.batch()))
        if error is not None:
            assert wire.produce_answer(error)[0] in (3, 17), name
        body = struct.pack(">ih", 1, len(name)) + name + b"\1"
        wire.ask(target.kafka, wire.framed(wire.header(3, 4, flexible=False) + body))
    assert everything(pulsar) == before


def everything(pulsar: PulsarAddress) -> object:
    """Every tenant, namespace and topic there is, but for other tests' namespaces' own topics."""
    found: dict[str, object] = {"tenants": pulsar.admin("GET", "tenants")}
    namespaces = pulsar.admin("GET", "namespaces/public")
    assert isinstance(namespaces, list)
    for namespace in namespaces:
        found[namespace] = (
            sorted(listed(pulsar, f"persistent/{namespace}")),
            sorted(listed(pulsar, f"persistent/{namespace}/partitioned")),
        )
    return found


def listed(pulsar: PulsarAddress, path: str) -> list[str]:
    found = pulsar.admin("GET", path)
    assert isinstance(found, list)
    return [str(name) for name in found]


def test_damaged_batches_are_refused_and_not_stored(target: BridgeChild) -> None:
    topic = f"fuzz-{secrets.token_hex(3)}"
    create(target.kafka, topic)
    answer = wire.ask(target.kafka, wire.produce(topic.encode(), wire.batch()))
    assert answer is not None and wire.produce_answer(answer) == (0, 0)
    stored: dict[str, tuple[int, int] | None] = {}
    for kind, make in BATCHES.items():
        refused = wire.ask(target.kafka, wire.produce(topic.encode(), make()))
        error = None if refused is None else wire.produce_answer(refused)
        if error is not None and (error[0] == 0 or error[1] != -1):
            stored[kind] = error
        assert error is None or error[0] in (2, 10, 32, 43, 53, 76, 87), (kind, error)
    assert not stored
    answer = wire.ask(target.kafka, wire.produce(topic.encode(), wire.batch()))
    assert answer is not None and wire.produce_answer(answer) == (0, 3), "the log's end has moved"


@one_whole_request
def test_large_records_are_stored_whole_or_refused(target: BridgeChild) -> None:
    topic = f"fuzz-{secrets.token_hex(3)}"
    create(target.kafka, topic)
    for size, last in ((9 << 20, 1), (60 << 20, 14)):  # in 2 chunks, and in 13
        answer = wire.ask(target.kafka, wire.produce(topic.encode(), wire.batch([bytes(size)])))
        assert answer is not None and wire.produce_answer(answer) == (0, last)
    limited = f"fuzz-{secrets.token_hex(3)}"
    new = NewTopic(limited, 1, 1, config={"max.message.bytes": str(20 << 20)})
    admin = AdminClient({"bootstrap.servers": target.kafka})
    admin.create_topics([new])[limited].result(30)
    answer = wire.ask(target.kafka, wire.produce(limited.encode(), wire.batch([bytes(21 << 20)])))
    assert answer is not None and wire.produce_answer(answer) == (10, -1)


def test_mutated_requests_are_answered_or_closed(target: BridgeChild, canary: Canary) -> None:
    topic = f"fuzz-{secrets.token_hex(3)}"
    create(target.kafka, topic)
    seed = secrets.randbits(32)
    answered, closed = mutations.run(target.kafka, topic, random.Random(seed), lambda sent: sent < 2000)
    print(f"figures: seed={seed} answered={answered} closed={closed}")
    assert answered and closed


def test_slow_clients_and_resets_cost_no_descriptors(target: BridgeChild) -> None:
    before = open_files(target.pid)
    with ExitStack() as opened:
        slow = [opened.enter_context(wire.connect(target.kafka)) for _ in range(200)]
        request = wire.api_versions_request()
        for at in range(len(request)):
            for one in slow:
                one.sendall(request[at : at + 1])
        assert all(wire.receive(one) is not None for one in slow)
    for number in range(400):
        with wire.connect(target.kafka) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(ConnectionError):
                one.sendall(wire.api_versions_request()[: number % 20])
    assert wire.ask(target.kafka, wire.api_versions_request()) is not None
    assert open_files(target.pid) <= before + 20


def test_a_half_closed_client_is_still_answered(target: BridgeChild) -> None:
    with wire.connect(target.kafka) as one:
        one.sendall(wire.api_versions_request())
        one.shutdown(socket.SHUT_WR)
        assert wire.receive(one) is not None
        assert wire.receive(one) is None


def test_a_long_pipeline_is_answered_in_order(target: BridgeChild, canary: Canary) -> None:
    with wire.connect(target.kafka) as one:
        requests = [wire.fetch_request(canary.topic, wait_ms=200, offset=0, correlation_id=0)]
        requests += [wire.api_versions_request(correlation_id=n) for n in range(1, 1000)]
        one.sendall(b"".join(requests))
        for number in range(1000):
            answer = wire.receive(one)
            assert answer is not None and struct.unpack_from(">i", answer)[0] == number


def test_clients_that_never_read_hold_little(target: BridgeChild) -> None:
    topic = f"fuzz-{secrets.token_hex(3)}"
    create(target.kafka, topic)
    for _ in range(4):
        answer = wire.ask(target.kafka, wire.produce(topic.encode(), wire.batch([bytes(900_000)])))
        assert answer is not None
    with ExitStack() as opened:
        for _ in range(20):
            one = opened.enter_context(wire.connect(target.kafka))
            with suppress(TimeoutError):
                one.sendall(b"".join(wire.fetch_request(topic) for _ in range(50)))
        assert wire.ask(target.kafka, wire.api_versions_request()) is not None
