"""What members of a classic group say to each other, against Kafka's own definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka import consumer_protocol
from bridge.kafka.consumer_protocol import Assignment, Partitions, Subscription
from bridge.kafka.message import DecodeError, encode, fields_of
from tests.kafka import judge

NAMES = st.text(max_size=20)
PARTITIONS = st.lists(st.builds(Partitions, topic=NAMES, partitions=st.lists(st.integers(0, 2**31 - 1), max_size=4)))


@pytest.mark.parametrize(
    ("name", "ours"), [("ConsumerProtocolSubscription", Subscription), ("ConsumerProtocolAssignment", Assignment)]
)
def test_the_fields_are_kafka_s(name: str, ours: type) -> None:
    theirs = judge.definition(name)
    assert judge.versions(theirs["validVersions"]) == range(consumer_protocol.NEWEST + 1)
    assert theirs["flexibleVersions"] == "none"
    for version in range(consumer_protocol.NEWEST + 1):
        told = [one["name"].lower() for one in theirs["fields"] if version in judge.versions(one["versions"])]
        found = [one.name.replace("_", "") for one in fields_of(ours) if one.exists(version)]
        assert found == told


@given(
    topics=st.lists(NAMES),
    owned=PARTITIONS,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | NAMES,
    version=st.integers(0, 3),
    rest=st.binary(max_size=4),
)
def test_a_subscription_comes_back(
    topics: list[str], owned: list[Partitions], generation: int, rack: str | None, version: int, rest: bytes
) -> None:
    said = Subscription(topics=topics, owned_partitions=owned, generation_id=generation, rack_id=rack)
    data = version.to_bytes(2, "big") + bytes(encode(said, version, flexible=False))
    found = consumer_protocol.read_subscription(data + rest)
    assert found.topics == topics
    assert found.owned_partitions == (owned if version else [])
    assert found.generation_id == (generation if version > 1 else -1)
    assert found.rack_id == (rack if version > 2 else None)
    newer = consumer_protocol.read_subscription((9).to_bytes(2, "big") + data[2:]) if version == 3 else found
    assert newer == found


@given(assigned=st.dictionaries(NAMES, st.sets(st.integers(0, 99), min_size=1)), version=st.integers(0, 3))
def test_an_assignment_comes_back(assigned: dict[str, set[int]], version: int) -> None:
    data = consumer_protocol.write_assignment(assigned, version)
    assert consumer_protocol.version_of(data) == version
    assert consumer_protocol.flat(consumer_protocol.read_assignment(data).assigned_partitions) == [
        (t, one) for t in sorted(assigned) for one in sorted(assigned[t])
    ]


def test_no_bytes_assign_nothing() -> None:
    assert consumer_protocol.read_assignment(b"").assigned_partitions == []


@given(st.binary(max_size=64))
def test_other_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (consumer_protocol.read_subscription, consumer_protocol.read_assignment):
        try:
            read(data)
        except DecodeError:
            assert data or read is consumer_protocol.read_subscription


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\2\0\1a"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        consumer_protocol.read_subscription(data)
