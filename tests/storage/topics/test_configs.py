"""Topic configs: what is kept, what it becomes in Pulsar, what is shown, and what is refused by name."""

import time
from dataclasses import replace

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention
from bridge.storage.topics.configs import (
    COMPACTION_THRESHOLD,
    FOREVER,
    ConfigSource,
    Operation,
    Policies,
    TopicDefaults,
    apply_operations,
    current_configs,
    describe,
    to_policies,
    validate,
)

DEFAULTS = TopicDefaults(retention=Retention(99, -1), max_message_bytes=5_000_000, ack_quorum=2, ledger_bytes=1 << 30)


def shown(configs: dict[str, str], actual: Policies | None = None) -> dict[str, str]:
    found = describe(configs, to_policies(configs, DEFAULTS) if actual is None else actual, DEFAULTS)
    return {entry.name: entry.value for entry in found}


def test_without_configs_the_namespace_s_policies_hold() -> None:
    assert to_policies({}, DEFAULTS) == Policies(None, None)
    assert to_policies({"cleanup.policy": "delete"}, DEFAULTS) == Policies(None, None)


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({"retention.ms": "60001"}, Retention(2, -1)),
        ({"retention.ms": "-1"}, Retention(-1, -1)),
        ({"retention.ms": "0"}, Retention(1, -1)),
        ({"retention.ms": str(2**63 - 1)}, Retention(-1, -1)),
        ({"retention.bytes": "1"}, Retention(99, 1)),
        ({"retention.bytes": "-1", "retention.ms": "60000"}, Retention(1, -1)),
        ({"retention.bytes": "-2", "retention.ms": "60000"}, Retention(1, -1)),
        ({"cleanup.policy": "", "retention.ms": "60000"}, FOREVER),
        ({"cleanup.policy": "compact", "retention.ms": "60000"}, FOREVER),
        ({"cleanup.policy": "compact,delete", "retention.ms": "60000"}, Retention(1, -1)),
    ],
)
def test_retention_is_never_less_than_asked(configs: dict[str, str], retention: Retention) -> None:
    assert to_policies(configs, DEFAULTS).retention == retention


def test_compacted_topics_are_compacted_by_pulsar() -> None:
    assert to_policies({"cleanup.policy": "compact"}, DEFAULTS).compaction_threshold == COMPACTION_THRESHOLD
    assert to_policies({"cleanup.policy": "delete,compact"}, DEFAULTS) == Policies(None, COMPACTION_THRESHOLD)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"), ("retention.ms", None), ("retention.ms", "-2"), ("retention.ms", "1_000"),
        ("retention.ms", "1.5"), ("retention.ms", str(2**63)), ("cleanup.policy", "shred"),
        ("segment.bytes", "13"), ("local.retention.ms", "-3"), ("retention.bytes", str(-(2**63) - 1)),
        ("cleanup.policy", "delete,shred"), ("cleanup.policy", "delete,"), ("compression.gzip.level", "0"),
        ("compression.type", "ZSTD"),
        ("segment.bytes", "1"), ("no.such.config", "1"), ("compression.type", "brotli"),
        ("entry.format", "mixed_kafka"), ("entry.format", ""),
        ("message.timestamp.type", "LogAppendTime"), ("min.insync.replicas", "3"), ("min.insync.replicas", "0"),
        ("max.message.bytes", "5000001"), ("max.message.bytes", "-1"), ("preallocate", "perhaps"),
        ("unclean.leader.election.enable", "true"), ("min.cleanable.dirty.ratio", "nan"),
        ("message.timestamp.after.max.ms", "-1"), ("message.timestamp.before.max.ms", "1.5"),
        ("remote.storage.enable", "true"), ("leader.replication.throttled.replicas", "0:1"),
    ],
)  # fmt: skip
def test_unsupported_values_are_refused_by_name(name: str, value: str | None) -> None:
    with pytest.raises(KafkaError, match=name) as raised:
        validate({name: value}, DEFAULTS)
    assert raised.value.code == ErrorCode.INVALID_CONFIG


def test_everything_that_is_shown_may_be_written_back() -> None:
    written = shown({"retention.ms": "1", "cleanup.policy": "compact,delete"})
    kept = validate(dict(written), DEFAULTS)
    assert shown(kept) == written
    assert kept == written


@pytest.mark.parametrize(
    ("name", "value"), [("entry.format", "kafka"), ("compression.type", "zstd"), ("compression.type", "uncompressed")]
)
def test_how_batches_are_stored_is_chosen(name: str, value: str) -> None:
    assert validate({name: f" {value} "}, DEFAULTS) == {name: value}
    assert shown({name: value})[name] == value
    assert shown({})["compression.type"] == "producer"
    assert shown({})["entry.format"] == "pulsar"


def test_how_far_timestamps_may_be_from_the_present_is_chosen() -> None:
    before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
    assert (shown({})[before], shown({})[after]) == (str(2**63 - 1), "3600000")  # Kafka's, since KIP-1030
    asked = {before: "86400000", after: "0"}
    assert validate(dict(asked), DEFAULTS) == asked
    assert {name: shown(asked)[name] for name in asked} == asked


def test_compacted_topics_are_of_format_pulsar() -> None:
    with pytest.raises(KafkaError, match=r"entry\.format") as raised:
        validate({"entry.format": "kafka", "cleanup.policy": "compact"}, DEFAULTS)
    assert raised.value.code == ErrorCode.INVALID_CONFIG
    found = describe({"cleanup.policy": "compact"}, Policies(FOREVER, 1000), replace(DEFAULTS, entry_format="kafka"))
    assert {one.name: one.value for one in found}["entry.format"] == "pulsar"


def test_what_is_accepted_is_kept_and_shown() -> None:
    asked = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false", "flush.messages": "1000"}
    assert validate(dict(asked), DEFAULTS) == asked
    found = {one.name: (one.value, one.source) for one in describe(asked, Policies(), DEFAULTS)}
    assert {name: found[name] for name in asked} == {name: (value, ConfigSource.TOPIC) for name, value in asked.items()}


def test_values_are_kept_in_kafka_s_form() -> None:
    asked: dict[str, str | None] = {
        "cleanup.policy": " compact, delete,compact ", "retention.ms": " 007 ", "min.cleanable.dirty.ratio": ".50",
        "preallocate": "TRUE", "message.timestamp.type": " CreateTime ",
    }  # fmt: skip
    assert validate(asked, DEFAULTS) == {
        "cleanup.policy": "compact,delete,compact", "retention.ms": "7", "min.cleanable.dirty.ratio": "0.5",
        "preallocate": "true", "message.timestamp.type": "CreateTime",
    }  # fmt: skip


def test_what_stays_as_it_is_is_not_judged_again() -> None:
    """It may be older than a rule, or of a newer node; another topic may not get it."""
    present = {"segment.bytes": "10", "of.a.newer.node": "1"}
    assert validate({**present, "retention.ms": "5"}, DEFAULTS, present) == {**present, "retention.ms": "5"}
    with pytest.raises(KafkaError, match=r"segment\.bytes"):
        validate({**present, "segment.bytes": "11"}, DEFAULTS, present)


def test_values_come_back_as_given_with_where_they_come_from() -> None:
    entries = {entry.name: entry for entry in describe({"retention.ms": "1"}, Policies(Retention(1, -1)), DEFAULTS)}
    mine = entries["retention.ms"]
    assert (mine.value, mine.source, mine.read_only) == ("1", ConfigSource.TOPIC, False)
    assert mine.synonyms == (
        ("retention.ms", "1", ConfigSource.TOPIC),
        ("log.retention.ms", str(99 * 60_000), ConfigSource.DEFAULT),
    )
    assert entries["min.insync.replicas"].value == "2"
    assert entries["segment.bytes"].value == str(1 << 30)
    assert "segment.ms" not in entries  # this Pulsar does not tell
    assert list(entries) == sorted(entries)
    assert all(entry.documentation for entry in entries.values())


def test_policies_set_through_pulsar_are_shown() -> None:
    changed = Policies(Retention(5, 7), 1000)
    values = shown({"retention.ms": "60000"}, changed)
    assert values["retention.ms"] == "300000"
    assert values["retention.bytes"] == str(7 << 20)
    assert values["cleanup.policy"] == "compact,delete"
    assert shown({"cleanup.policy": "compact"}, Policies())["cleanup.policy"] == "delete"
    assert shown({}, Policies(FOREVER, 1000))["cleanup.policy"] == "compact"


def test_changing_one_config_leaves_policies_set_through_pulsar() -> None:
    actual = Policies(Retention(5, -1))
    present = current_configs({}, actual, DEFAULTS)
    after = apply_operations(present, [("segment.ms", Operation.SET, "5")], DEFAULTS.value)
    assert to_policies(validate(after, DEFAULTS), DEFAULTS) == actual
    gone = apply_operations(
        present, [("retention.ms", Operation.DELETE, None), ("retention.bytes", 1, None)], DEFAULTS.value
    )
    assert to_policies(validate(gone, DEFAULTS), DEFAULTS) == Policies()


@pytest.mark.parametrize(
    ("present", "operation", "value", "after"),
    [
        ({}, Operation.APPEND, "compact", "delete,compact"),
        ({}, Operation.APPEND, "delete", "delete"),
        ({"cleanup.policy": "delete,compact"}, Operation.SUBTRACT, "delete", "compact"),
        ({"cleanup.policy": "compact"}, Operation.SET, "delete", "delete"),
        ({"cleanup.policy": "compact"}, Operation.DELETE, None, None),
        ({}, Operation.DELETE, None, None),
        ({"cleanup.policy": "compact"}, Operation.APPEND, "", "compact,"),  # which is refused, as in Kafka
        ({"cleanup.policy": "compact"}, Operation.SUBTRACT, "compact", ""),
    ],
)
def test_lists_grow_and_shrink(present: dict[str, str], operation: int, value: str | None, after: str | None) -> None:
    assert (
        apply_operations(present, [("cleanup.policy", operation, value)], DEFAULTS.value).get("cleanup.policy") == after
    )


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        ("retention.ms", Operation.APPEND, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", 9, "1", ErrorCode.INVALID_REQUEST),
        ("no.such.config", Operation.SUBTRACT, "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_wrong_changes_are_refused(name: str, operation: int, value: str | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        apply_operations({}, [(name, operation, value)], DEFAULTS.value)
    assert raised.value.code == code


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
def test_long_lists_take_no_long_time(operation: Operation) -> None:
    """Both may be as long as a string is; the event loop waits."""
    present, given = ",".join(["delete"] * 4600), ",".join(map(str, range(5600)))
    began = time.process_time()
    apply_operations({"cleanup.policy": present}, [("cleanup.policy", operation, given)])
    assert time.process_time() - began < 0.1
