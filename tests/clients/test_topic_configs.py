"""Topic configs: what is accepted is kept and shown as the topic's own, as by Kafka; what is refused, and undone.

The bridge is alone in refusing what it cannot do (`NOT_HERE`). Kafka's own answers are pinned; `--control` asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.apis import alter_configs, create_topics, describe_configs, incremental_alter_configs
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at, unique
from tests.clients.endpoint import Endpoint
from tests.clients.model import attempts
from tests.clients.refusals.configs import APPEND, DELETE, SET, SUBTRACT, TOPIC, change, describe, replace
from tests.clients.refusals.topics import create

INT, LONG = 2**31 - 1, 2**63 - 1
_TOPIC_CONFIG = 1
"""`DescribeConfigsResponse.ConfigSource.TOPIC_CONFIG`: the topic's own."""

ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "cleanup.policy": ("delete", "compact,delete", ""),
    "compression.gzip.level": ("-1", "1", "9"),
    "compression.lz4.level": ("1", "17"),
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "compression.zstd.level": ("-131072", "22", "0"),
    "delete.retention.ms": ("0", str(LONG)),
    "file.delete.delay.ms": ("0", str(LONG)),
    "flush.messages": ("1", str(LONG)),
    "flush.ms": ("0", str(LONG)),
    "follower.replication.throttled.replicas": ("",),
    "index.interval.bytes": ("0", str(INT)),
    "leader.replication.throttled.replicas": ("",),
    "local.retention.bytes": ("-2", "-1", str(LONG)),
    "local.retention.ms": ("-2", "-1", "0", str(LONG)),
    "max.compaction.lag.ms": (str(LONG),),
    "max.message.bytes": ("0", "104857600"),
    "message.timestamp.after.max.ms": ("0", str(LONG)),
    "message.timestamp.before.max.ms": ("0", str(LONG)),
    "message.timestamp.type": ("CreateTime",),
    "min.cleanable.dirty.ratio": ("0.0", "1.0", "0.5"),
    "min.compaction.lag.ms": ("0", str(LONG)),
    "min.insync.replicas": ("1",),
    "preallocate": ("true", "false"),
    "remote.log.copy.disable": ("true", "false"),
    "remote.log.delete.on.disable": ("true", "false"),
    "remote.storage.enable": ("false",),
    "retention.bytes": ("-1", str(LONG), "-2", str(-LONG - 1)),
    "retention.ms": ("-1", "0", str(LONG)),
    "segment.bytes": ("1048576", str(INT)),
    "segment.index.bytes": ("4", str(INT)),
    "segment.jitter.ms": ("0", str(LONG)),
    "segment.ms": ("1", str(LONG)),
    "unclean.leader.election.enable": ("false",),
}
"""Every config that Kafka 4.1 has for topics, with its extreme values."""

READ_AS = (
    ("retention.ms", " 007 ", "7"),
    ("retention.bytes", "+5", "5"),
    ("preallocate", " TRUE ", "true"),
    ("unclean.leader.election.enable", "False", "false"),
    ("compression.type", " zstd ", "zstd"),
    ("cleanup.policy", " compact , delete ", "compact,delete"),
    ("min.cleanable.dirty.ratio", ".50", "0.5"),
    ("leader.replication.throttled.replicas", " ", ""),
)
"""Values that are shown otherwise than they were written."""

REFUSED: Mapping[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("shred", "Delete", "delete,", "none"),
    "compression.gzip.level": ("0", "10", "-2"),
    "compression.lz4.level": ("0", "18"),
    "compression.type": ("ZSTD", "none", "", None),
    "compression.zstd.level": ("23", "-131073"),
    "delete.retention.ms": ("-1", str(LONG + 1)),
    "file.delete.delay.ms": ("-1",),
    "flush.messages": ("0",),
    "flush.ms": ("-1",),
    "follower.replication.throttled.replicas": ("all",),
    "index.interval.bytes": ("-1", str(INT + 1)),
    "leader.replication.throttled.replicas": ("0",),
    "local.retention.bytes": ("-3",),
    "local.retention.ms": ("-3",),
    "max.compaction.lag.ms": ("0",),
    "max.message.bytes": ("-1", str(INT + 1)),
    "message.downconversion.enable": ("true",),
    "message.format.version": ("3.0",),
    "message.timestamp.after.max.ms": ("-1",),
    "message.timestamp.before.max.ms": ("-1",),
    "message.timestamp.difference.max.ms": ("1",),
    "message.timestamp.type": ("createtime", ""),
    "min.cleanable.dirty.ratio": ("-0.1", "1.1", "nan", "half"),
    "min.compaction.lag.ms": ("-1",),
    "min.insync.replicas": ("0", "-1"),
    "preallocate": ("yes", "", "0"),
    "remote.log.copy.disable": ("yes",),
    "remote.log.delete.on.disable": ("yes",),
    "remote.storage.enable": ("yes", "true"),
    "retention.bytes": ("1.5", str(-LONG - 2)),
    "retention.ms": ("-2", "soon", "", "1_000", None),
    "segment.bytes": ("13",),  # of Kafka 4 up to 1048575, which were legal before
    "segment.index.bytes": ("3",),
    "segment.jitter.ms": ("-1",),
    "segment.ms": ("0",),
    "unclean.leader.election.enable": ("no",),
}

NOT_HERE = (
    ("min.insync.replicas", "7"),  # more copies than Pulsar acknowledges
    ("message.timestamp.type", "LogAppendTime"),  # timestamps are the producers'
    ("max.compaction.lag.ms", "1"),  # nothing is compacted by a certain time
    ("unclean.leader.election.enable", "true"),  # BookKeeper takes nothing back
    ("leader.replication.throttled.replicas", "*"),  # Pulsar replicates by itself
    ("follower.replication.throttled.replicas", "0:1"),
    ("max.message.bytes", str(INT)),  # above kafka.max_request_bytes
)
"""What Kafka accepts, and the bridge refuses because it would not do it."""

Given = Mapping[str, str | None]


class Server:
    """Kafka or the bridge."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.is_kafka = endpoint.name != "bridge"
        self._address = endpoint.kafka

    def create(self, configs: Given, *, validate_only: bool = False) -> tuple[str, str]:
        """A new topic with these, and the error's name."""
        name = unique("configs")
        given = [create_topics.RequestConfig(name=name, value=value) for name, value in configs.items()]
        request = create(name, configs=given, validate_only=validate_only)
        return name, ErrorCode(self._ask(create_topics.API, request).topics[0].error_code).name

    def change(self, topic: str, *changes: tuple[str, int, str | None]) -> str:
        """The error's name."""
        answer = self._ask(incremental_alter_configs.API, change(TOPIC, topic, *changes))
        return ErrorCode(answer.responses[0].error_code).name

    def replace(self, topic: str, configs: Given) -> str:
        """The same, for all configs."""
        answer = self._ask(alter_configs.API, replace(TOPIC, topic, *configs.items()))
        return ErrorCode(answer.responses[0].error_code).name

    def shown(self, topic: str) -> dict[str, Any]:
        """What is shown of the topic's configs."""
        request = describe(TOPIC, topic)
        request.include_synonyms = request.include_documentation = True
        return {config.name: config for config in self._ask(describe_configs.API, request).results[0].configs}

    def await_own(self, topic: str, wanted: Mapping[str, str]) -> None:
        """Kafka's broker learns of a change after it was answered; the bridge shows it at once."""
        for _ in attempts("the topic's own configs"):
            own = {one.name: one.value for one in self.shown(topic).values() if one.config_source == _TOPIC_CONFIG}
            if own == wanted or not self.is_kafka:
                break
        assert own == wanted

    def _ask(self, api: Any, request: Any) -> Any:
        return ask_at(self._address, api, request)


@pytest.fixture
def server(endpoint: Endpoint) -> Server:
    return Server(endpoint)


def test_every_config_of_kafka_s_is_there(server: Server) -> None:
    topic, _ = server.create({})
    server.await_own(topic, {})
    shown = server.shown(topic)
    assert shown.keys() - {"entry.format"} == ACCEPTED.keys()
    assert not any(one.read_only or one.is_sensitive for one in shown.values())
    assert all(one.documentation and one.config_type for one in shown.values())


@pytest.mark.parametrize("turn", range(max(map(len, ACCEPTED.values()))))
def test_what_is_accepted_is_shown_as_the_topic_s_own(server: Server, turn: int) -> None:
    given = {name: values[turn] for name, values in ACCEPTED.items() if turn < len(values)}
    if turn == 1:
        del given["min.compaction.lag.ms"]  # it may not be above max.compaction.lag.ms
    topic, error = server.create(given)
    assert error == "NONE"
    server.await_own(topic, given)
    shown = server.shown(topic)
    for name, value in given.items():
        first = shown[name].synonyms[0]
        assert (first.name, first.value, first.source) == (name, value, _TOPIC_CONFIG)
    assert server.change(topic, *((name, DELETE, None) for name in given)) == "NONE"
    server.await_own(topic, {})


def test_both_ways_to_alter_keep_what_they_accept(server: Server) -> None:
    given = {name: values[0] for name, values in ACCEPTED.items()}
    topic, _ = server.create({})
    server.await_own(topic, {})
    assert server.change(topic, *((name, SET, value) for name, value in given.items())) == "NONE"
    server.await_own(topic, given)
    assert server.replace(topic, {"min.insync.replicas": "1"}) == "NONE"
    server.await_own(topic, {"min.insync.replicas": "1"})


def test_values_are_shown_as_kafka_reads_them(server: Server) -> None:
    topic, error = server.create({name: written for name, written, _ in READ_AS})
    assert error == "NONE"
    server.await_own(topic, {name: read for name, _, read in READ_AS})


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_value_is_refused(server: Server, name: str) -> None:
    for value in REFUSED[name]:
        assert server.create({name: value}, validate_only=True)[1] == "INVALID_CONFIG", value


@pytest.mark.parametrize(("name", "value"), NOT_HERE)
def test_what_would_not_be_done_is_refused(server: Server, name: str, value: str) -> None:
    assert server.create({name: value}, validate_only=True)[1] == ("NONE" if server.is_kafka else "INVALID_CONFIG")


@pytest.mark.parametrize(
    ("before", "operation", "value", "error", "after"),
    [
        (None, APPEND, "compact", "NONE", "delete,compact"),
        (None, APPEND, "delete", "NONE", "delete"),
        ("compact", APPEND, "delete,compact", "NONE", "compact,delete"),
        ("", APPEND, "compact", "NONE", "compact"),
        ("compact", APPEND, " delete ", "NONE", "compact,delete"),
        ("compact", APPEND, "", "INVALID_CONFIG", "compact"),
        ("compact", APPEND, "shred", "INVALID_CONFIG", "compact"),
        ("compact,delete", SUBTRACT, "delete", "NONE", "compact"),
        ("compact,delete", SUBTRACT, "compact,delete", "NONE", ""),
        (None, SUBTRACT, "compact", "NONE", "delete"),
        ("compact", SUBTRACT, "shred", "NONE", "compact"),
        ("compact", DELETE, "ignored", "NONE", None),
        (None, DELETE, None, "NONE", None),
    ],
)
def test_lists_grow_and_shrink(
    server: Server, before: str | None, operation: int, value: str | None, error: str, after: str | None
) -> None:
    topic, _ = server.create({} if before is None else {"cleanup.policy": before})
    server.await_own(topic, {} if before is None else {"cleanup.policy": before})
    assert server.change(topic, ("cleanup.policy", operation, value)) == error
    server.await_own(topic, {} if after is None else {"cleanup.policy": after})
