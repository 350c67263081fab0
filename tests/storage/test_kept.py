"""What is kept with a topic comes back, and what others have written there does no harm."""

import pytest

from bridge.storage import kept


def test_configs_come_back() -> None:
    configs = {"retention.ms": "5", "cleanup.policy": "compact,delete", "max.message.bytes": "77"}
    properties = {"other": "x", **kept.with_configs(configs)}
    assert kept.configs(properties) == configs
    assert kept.max_message_bytes(properties) == 77
    assert kept.is_compacted(properties)


def test_nothing_kept() -> None:
    assert kept.configs({}) == {}
    assert kept.max_message_bytes({}) is None
    assert kept.max_message_bytes(kept.with_configs({})) is None
    assert not kept.is_compacted({})
    assert not kept.is_compacted(kept.with_configs({"cleanup.policy": "delete"}))
    assert kept.log_start({}, 3) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"'])
def test_what_is_no_config_is_none(text: str) -> None:
    assert kept.configs({kept.CONFIGS: text}) == {}


def test_log_starts_are_kept_for_each_partition() -> None:
    properties = {kept.log_start_property(1): "42", kept.log_start_property(11): "7", kept.log_start_property(2): "x"}
    assert [kept.log_start(properties, partition) for partition in (0, 1, 2, 11)] == [0, 42, 0, 7]
