"""A group's configs are the bridge's settings."""

import pytest

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.group_configs import check_group_configs, group_configs

GROUPS = Settings().with_values(groups={"consumer_session_timeout_ms": 50_000}).groups


def test_group_configs_are_the_settings_and_read_only() -> None:
    found = {entry.name: (entry.value, entry.read_only) for entry in group_configs(GROUPS)}
    assert found["consumer.session.timeout.ms"] == ("50000", True)
    assert [entry.name for entry in group_configs(GROUPS)] == sorted(found)


def test_the_present_value_may_be_set() -> None:
    check_group_configs([(entry.name, f" {entry.value} ") for entry in group_configs(GROUPS)], GROUPS)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("consumer.session.timeout.ms", "45000", "is 50000 for all groups here and cannot be 45000"),
        ("share.session.timeout.ms", "45000", "a type of group that is not supported"),
        ("streams.num.standby.replicas", "1", "a type of group that is not supported"),
        ("no.such", "1", "Unknown group config name: no.such"),
    ],
)
def test_any_other_value_is_refused(name: str, value: str, text: str) -> None:
    with pytest.raises(KafkaError, match=text) as raised:
        check_group_configs([(name, value)], GROUPS)
    assert raised.value.code == ErrorCode.INVALID_CONFIG
