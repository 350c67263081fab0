"""Kafka's topic configs as Pulsar policies: what can be set when a topic is created; anything else is refused."""

from collections.abc import Iterable
from math import ceil

from bridge.config import RetentionSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention

# what the bridge does anyway: asking for it changes nothing
_ALWAYS = {"cleanup.policy": "delete", "compression.type": "producer", "message.timestamp.type": "CreateTime"}
_RETENTION = ("retention.ms", "retention.bytes")


def at_creation(configs: Iterable[tuple[str, str | None]], defaults: RetentionSettings) -> Retention | None:
    """The retention these configs ask for, None for the namespace's; INVALID_CONFIG for what cannot be had."""
    asked: dict[str, int] = {}
    for name, value in configs:
        if name in _RETENTION:
            asked[name] = _number(name, value)
        elif name not in _ALWAYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} cannot be set on a topic here")
        elif value != _ALWAYS[name]:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is always {_ALWAYS[name]} here")
    if not asked:
        return None
    milliseconds, size = asked.get("retention.ms"), asked.get("retention.bytes", -1)
    minutes = defaults.minutes if milliseconds is None else _scaled(milliseconds, 60_000)
    return Retention(minutes, _scaled(size, 1 << 20))


def _number(name: str, value: str | None) -> int:
    try:
        number = int(value or "")
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be a whole number") from None
    if number != -1 and number < 1:
        # Pulsar's 0 keeps nothing at all, not even what was just produced
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be -1 or above 0")
    return number


def _scaled(value: int, unit: int) -> int:
    """In Pulsar's coarser units, never less than asked for; −1 stays without limit."""
    return -1 if value == -1 else ceil(value / unit)
