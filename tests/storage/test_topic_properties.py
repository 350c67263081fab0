"""What is kept with a topic comes back, and what others have written there does no harm."""

import pytest

from bridge.codec.compression import KafkaCodec
from bridge.storage import topic_properties


def test_configs_come_back() -> None:
    configs = {"retention.ms": "5", "cleanup.policy": "compact,delete", "max.message.bytes": "77"}
    properties = {"other": "x", **topic_properties.with_configs(configs)}
    assert topic_properties.configs(properties) == configs
    assert topic_properties.max_message_bytes(topic_properties.configs(properties)) == 77
    assert topic_properties.is_compacted(topic_properties.configs(properties))


def test_how_far_timestamps_may_be_from_the_present() -> None:
    before, after = topic_properties.TIMESTAMP_BEFORE, topic_properties.TIMESTAMP_AFTER
    assert topic_properties.max_timestamp_distances({}) == (2**63 - 1, 3_600_000)
    assert topic_properties.max_timestamp_distances({before: "5", after: "0"}) == (5, 0)
    assert topic_properties.max_timestamp_distances({before: "-1", after: "soon"}) == (2**63 - 1, 3_600_000)


def test_a_topic_without_properties_has_no_configs() -> None:
    assert topic_properties.configs({}) == {}
    assert topic_properties.max_message_bytes({}) is None
    assert not topic_properties.is_compacted({})
    assert not topic_properties.is_compacted({"cleanup.policy": "delete"})
    assert topic_properties.log_starts({}) == {}


@pytest.mark.parametrize(("kop", "ours"), [("pulsar", "pulsar"), ("kafka", "kafka"), ("mixed_kafka", "kafka")])
def test_the_format_of_kop_s_topics_is_theirs_until_a_client_says_otherwise(kop: str, ours: str) -> None:
    properties = {"kafkaEntryFormat": kop}
    assert topic_properties.configs(properties) == {"entry.format": ours}
    for said in ("pulsar", "kafka"):
        assert topic_properties.configs({**properties, **topic_properties.with_configs({"entry.format": said})}) == {
            "entry.format": said
        }
    assert topic_properties.configs({"kafkaEntryFormat": "avro"}) == {}


def test_compacted_topics_are_of_format_pulsar() -> None:
    compacted = {"cleanup.policy": "compact,delete"}
    assert topic_properties.entry_format(compacted, "kafka") == "pulsar"
    assert (
        topic_properties.configs({"kafkaEntryFormat": "kafka", **topic_properties.with_configs(compacted)}) == compacted
    )
    assert topic_properties.entry_format({}, "kafka") == "kafka"
    assert topic_properties.entry_format({"entry.format": "pulsar"}, "kafka") == "pulsar"


@pytest.mark.parametrize(
    ("value", "codec"),
    [("producer", None), ("uncompressed", KafkaCodec.NONE), ("gzip", KafkaCodec.GZIP), ("zstd", KafkaCodec.ZSTD),
     ("lz4", KafkaCodec.LZ4), ("snappy", KafkaCodec.SNAPPY)],
)  # fmt: skip
def test_codecs_go_by_their_names(value: str, codec: KafkaCodec | None) -> None:
    assert topic_properties.codec({"compression.type": value}) == codec


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"'])
def test_malformed_configs_are_ignored(text: str) -> None:
    assert topic_properties.configs({topic_properties.CONFIGS: text}) == {}


def _changed(properties: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    return {**properties, **topic_properties.with_changes(properties, wanted)}


@pytest.mark.parametrize("earlier", [{}, topic_properties.with_configs({"a": "1", "b": "2"})])
def test_configs_that_are_changed_at_the_same_time_stay_changed(earlier: dict[str, str]) -> None:
    kept = topic_properties.kept_configs(earlier)
    one = topic_properties.with_changes(earlier, {**kept, "a": "7"})
    other = topic_properties.with_changes(earlier, {**kept, "c": "3"})
    third = topic_properties.with_changes(earlier, {name: value for name, value in kept.items() if name != "b"})
    found = topic_properties.configs({**earlier, **one, **third, **other})
    assert found == {"a": "7", "c": "3"}
    together = topic_properties.with_changes({**earlier, **one, **third, **other}, found)
    assert together == {"kafka.configs": ' {"a":"7","c":"3"}'}
    assert topic_properties.with_changes({**earlier, **one, **third, **other, **together}, found) == {}


def test_a_config_that_is_not_set_any_more_does_not_come_back() -> None:
    properties = _changed(topic_properties.with_configs({"a": "1", "b": "2"}), {"b": "2"})
    assert properties["kafka.config.a"] == "null"
    assert topic_properties.configs(properties) == {"b": "2"}
    assert topic_properties.configs(_changed(properties, {"a": "", "b": "2"})) == {"a": "", "b": "2"}


def test_what_a_node_of_an_earlier_version_has_written_since_counts() -> None:
    properties = _changed(_changed({}, {"a": "1", "b": "2"}), {"a": "3"})
    properties |= topic_properties.with_configs({"a": "4", "b": "5"})  # as 1.0 does: all that it knows of
    assert topic_properties.configs(properties) == {"a": "4", "b": "5"}
    assert topic_properties.with_changes(properties, {"a": "4", "b": "5"}) == {}
    properties = _changed(properties, {"b": "6", "c": "7"})
    assert topic_properties.configs(properties) == {"b": "6", "c": "7"}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", " null", "[" * 1500])
def test_malformed_values_of_configs_are_ignored(text: str) -> None:
    assert topic_properties.configs({"kafka.configs": ' {"a":"1"}', "kafka.config.a": text}) == {"a": "1"}


def test_log_starts_are_kept_for_each_partition() -> None:
    properties = topic_properties.with_log_start(1, 42) | topic_properties.with_log_start(11, 7)
    assert topic_properties.log_starts(properties) == {1: 42, 11: 7}


def test_the_greatest_log_start_counts_not_the_last_written() -> None:
    properties = topic_properties.with_log_start(1, 42) | topic_properties.with_log_start(1, 7)
    assert topic_properties.log_starts(properties) == {1: 42}
    assert topic_properties.outdated_log_starts(properties, 1) == ["kafka.log.start.1.7"]
    assert topic_properties.outdated_log_starts(properties, 11) == []
    del properties["kafka.log.start.1.7"]
    assert topic_properties.log_starts(properties) == {1: 42}
    assert topic_properties.outdated_log_starts(properties, 1) == []


@pytest.mark.parametrize(
    "name", ["kafka.log.start.", "kafka.log.start.x", "kafka.log.start.1", "kafka.log.start.1.", "kafka.log.start.1.x"]
)
def test_malformed_log_starts_are_ignored(name: str) -> None:
    assert topic_properties.log_starts({name: "42"}) == {}
