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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumer.session.timeout.ms", "is 50000 for all groups here and cannot be set for one"),
        ("share.session.timeout.ms", "a type of group that is not supported"),
        ("streams.num.standby.replicas", "a type of group that is not supported"),
        ("no.such", "Unknown group config name: no.such"),
    ],
)
def test_none_can_be_set_for_a_group(name: str, text: str) -> None:
    with pytest.raises(KafkaError, match=text) as raised:
        check_group_configs([name], GROUPS)
    assert raised.value.code == ErrorCode.INVALID_CONFIG


def test_to_set_none_is_allowed() -> None:
    check_group_configs([], GROUPS)
