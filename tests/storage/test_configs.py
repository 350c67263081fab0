"""Topic configs at creation."""

import pytest

from bridge.config import RetentionSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention
from bridge.storage.configs import at_creation

DEFAULTS = RetentionSettings(minutes=99)


def test_nothing_asked_leaves_the_namespace_s_retention() -> None:
    assert at_creation([], DEFAULTS) is None
    assert at_creation([("cleanup.policy", "delete")], DEFAULTS) is None


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ([("retention.ms", "60001")], Retention(2, -1)),
        ([("retention.ms", "-1")], Retention(-1, -1)),
        ([("retention.bytes", "1")], Retention(99, 1)),
        ([("retention.bytes", "-1"), ("retention.ms", "60000")], Retention(1, -1)),
    ],
)
def test_retention_is_never_less_than_asked(configs: list[tuple[str, str | None]], retention: Retention) -> None:
    assert at_creation(configs, DEFAULTS) == retention


@pytest.mark.parametrize(
    "config",
    [
        ("retention.ms", "soon"), ("retention.ms", None), ("retention.ms", "0"), ("retention.bytes", "-2"),
        ("cleanup.policy", "compact"), ("segment.bytes", "1"), ("no.such.config", "1"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(config: tuple[str, str | None]) -> None:
    with pytest.raises(KafkaError, match=config[0]) as raised:
        at_creation([config], DEFAULTS)
    assert raised.value.code == ErrorCode.INVALID_CONFIG
