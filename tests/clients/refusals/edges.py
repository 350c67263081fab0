"""Edges: the last value that is taken and the first that is not, of what a client may say, in Kafka's own units."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_client_quotas,
    alter_user_scram_credentials,
    consumer_group_heartbeat,
    create_topics,
    delete_records,
    elect_leaders,
    find_coordinator,
    init_producer_id,
    join_group,
    offset_commit,
    produce,
)
from tests.clients.refusals import batches, cluster, consumer_groups, groups, offsets, records, security, topics
from tests.clients.refusals.case import Case, World

INT, LONG = 2**31 - 1, 2**63 - 1
SHA_512 = 2


def noted(note: str) -> Any:
    """An OffsetCommit with a note, of a world."""
    return lambda world: offsets.commit("edges", world.topic, note=note)


def committed(**fields: Any) -> Any:
    """An OffsetCommit with other fields, of a world."""
    return lambda world: offsets.commit("edges", world.topic, **fields)


def joining(suffix: str, member: str = "", **fields: Any) -> Any:
    """A JoinGroup of a group of its own."""
    return lambda world: groups.join(f"{suffix}-{world.missing}", member, **fields)


def beating(suffix: str, member: str = "m", **fields: Any) -> Any:
    """A ConsumerGroupHeartbeat of a group of its own."""
    return lambda world: consumer_groups.beat(f"{suffix}-{world.missing}", member, **fields)


def credentials(mechanism: int, iterations: int) -> Any:
    """A user's credentials."""
    return lambda world: security.credentials(put=(world.missing,), mechanism=mechanism, iterations=iterations)


def limited(key: str, value: float) -> Any:
    """A user's quota."""
    return lambda world: cluster.limit("user", "x", key, value)


def elected(timeout_ms: int) -> Any:
    """An ElectLeaders within this time."""

    def request(world: World) -> Any:
        wanted = cluster.elect(world.topic)
        wanted.timeout_ms = timeout_ms
        return wanted

    return request


def found(group: str) -> Any:
    """A FindCoordinator."""
    return lambda world: groups.find(group)


def cut(offset: int) -> Any:
    """A DeleteRecords."""
    return lambda world: records.cut(world.topic, offset)


def begun(timeout_ms: int) -> Any:
    """An InitProducerId of no transactional id."""
    return lambda world: init_producer_id.Request(transactional_id=None, transaction_timeout_ms=timeout_ms)


COMMIT, JOIN, BEAT, PRODUCE = offset_commit.API, join_group.API, consumer_group_heartbeat.API, produce.API
CREDENTIALS, LIMIT, ELECT = alter_user_scram_credentials.API, alter_client_quotas.API, elect_leaders.API

NO_USERS = (
    "UNSUPPORTED_SASL_MECHANISM: The users of this cluster are not kept in Pulsar: they are in "
    "security.password_file, or do not log in."
)

CASES = [
    Case("name of 249 characters", create_topics.API, lambda w: topics.create("x" * 249, validate_only=True), "NONE"),
    #
    Case("note of 4096 characters of 3 bytes", COMMIT, noted("\u20ac" * 4096), "NONE", version=8),
    Case("note of 4097 characters", COMMIT, noted("\u20ac" * 4097), "OFFSET_METADATA_TOO_LARGE", version=8),
    Case("note of 2048 pairs of UTF-16", COMMIT, noted("\U0001f600" * 2048), "NONE", version=8),
    Case("note of 2049 pairs of UTF-16", COMMIT, noted("\U0001f600" * 2049), "OFFSET_METADATA_TOO_LARGE", version=8),
    *[Case(f"offset {one}", COMMIT, committed(offset=one), "NONE", version=8) for one in (0, -2, LONG, -LONG - 1)],
    *[Case(f"retention {one}", COMMIT, committed(retention_time_ms=one), "NONE", version=4)
      for one in (-2, -1, 0, 1, LONG)],
    #
    *[Case(f"session timeout {one}", JOIN, joining(f"s{one}", session_timeout_ms=one), "MEMBER_ID_REQUIRED")
      for one in (6000, 1_800_000)],
    *[Case(f"session timeout {one}", JOIN, joining(f"s{one}", session_timeout_ms=one), "INVALID_SESSION_TIMEOUT")
      for one in (5999, 1_800_001, 0, INT, -INT - 1)],
    *[Case(f"rebalance timeout {one}", JOIN, joining(f"r{one}", rebalance_timeout_ms=one), "MEMBER_ID_REQUIRED")
      for one in (-INT - 1, -1, 0, 1, INT)],
    *[Case(f"group of {one} characters", JOIN, joining("x" * one), "MEMBER_ID_REQUIRED") for one in (249, 32_000)],
    *[Case(f"member of {one} characters", JOIN, joining("m", "m" * one), "UNKNOWN_MEMBER_ID") for one in (249, 32_000)],
    *[Case(f"instance of {one} characters", JOIN, joining(f"i{one}", group_instance_id="i" * one), "NONE")
      for one in (0, 249, 250, 32_000)],
    *[Case(f"group of {one} characters", find_coordinator.API, found("x" * one), "NONE")
      for one in (249, 32_000)],
    *[Case(f"member of {one} characters", BEAT, beating(f"c{one}", "m" * one), "NONE") for one in (249, 32_000)],
    *[Case(f"instance of {one} characters", BEAT, beating(f"n{one}", instance_id="i" * one), "NONE")
      for one in (249, 32_000)],
    *[Case(f"rebalance timeout {one}", BEAT, beating(f"t{one}", rebalance_timeout_ms=one), "NONE")
      for one in (-2, 0, INT)],
    #
    *[Case(f"offset {one}", delete_records.API, cut(one), "OFFSET_OUT_OF_RANGE")
      for one in (LONG, -LONG - 1)],
    *[Case(f"transaction timeout {one}", init_producer_id.API, begun(one), "NONE", version=4)
      for one in (-1, 0, INT)],
    *[Case(f"4095 iterations, mechanism {one}", CREDENTIALS, credentials(one, 4095),
         "UNACCEPTABLE_CREDENTIAL: Too few iterations") for one in (security.SHA_256, SHA_512)],
    *[Case(f"16385 iterations, mechanism {one}", CREDENTIALS, credentials(one, 16_385),
         "UNACCEPTABLE_CREDENTIAL: Too many iterations") for one in (security.SHA_256, SHA_512)],
    *[Case(f"{one} iterations", CREDENTIALS, credentials(security.SHA_256, one), "NONE", ours=NO_USERS,
         why="this bridge has no users") for one in (4096, 16_384)],
    #
    Case("as many bytes as a LONG has", LIMIT, limited("producer_byte_rate", 2.0**63), "NONE"),
    Case("more bytes than a LONG has", LIMIT, limited("producer_byte_rate", 2.0**63 + 2048),
         "INVALID_REQUEST: Proposed value for producer_byte_rate is too large for a LONG."),
    *[Case(f"{one} percent", LIMIT, limited("request_percentage", one), "NONE") for one in (1e-9, 1e300)],
    Case("0 percent", LIMIT, limited("request_percentage", 0),
         "INVALID_REQUEST: Quota request_percentage must be greater than 0"),
    #
    *[Case(f"timeout {one}", ELECT, elected(one), "REQUEST_TIMED_OUT | REQUEST_TIMED_OUT",
         ours="ELECTION_NOT_NEEDED: Leader election not needed for topic partition.", why="that takes no time")
      for one in (-1, 0)],
    Case("timeout -1", PRODUCE, lambda w: records.write(w.topic, batches.plain(), timeout_ms=-1), "NONE"),
    Case("batch of max.message.bytes", PRODUCE, lambda w: batches.within(w, records.write, 0), "NONE"),
    Case("batch above max.message.bytes by 1", PRODUCE, lambda w: batches.within(w, records.write, -1),
         "MESSAGE_TOO_LARGE", ours="MESSAGE_TOO_LARGE: a batch of 70 bytes is above the topic's max.message.bytes of "
         "69", why="Kafka says no more than the code"),
    Case("batch above max.message.bytes uncompressed", PRODUCE, lambda w: batches.opens(w, records.write, "producer"),
         "NONE"),
    Case("batch above max.message.bytes as it is stored", PRODUCE, lambda w: batches.opens(w, records.write,
         "uncompressed"), "MESSAGE_TOO_LARGE", ours="NONE", why="the limit is of batches as clients send them"),
]  # fmt: skip
