"""The rules of Kafka's topic configs: which values are legal, and what they are as Pulsar's policies.

What a client has set is kept in properties of the topic, in Kafka's words, so that it comes back as it was given.
Where Pulsar's policy has been changed since, the policy is what is shown. `config_table` has the configs themselves.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention
from bridge.storage.entries import KAFKA, PULSAR
from bridge.storage.topic_properties import entry_format, is_compacted
from bridge.storage.topics.config_table import INT32_MAX, INT64_MAX, TABLE, Config, ConfigSupport, ConfigType

COMPACTION_THRESHOLD: Final = 64 * 1024 * 1024
"""The bytes of new data after which Pulsar compacts a topic with cleanup.policy=compact."""
FOREVER: Final = Retention(-1, -1)
_MINUTE, _MEGABYTE = 60_000, 1 << 20


_LARGEST: Final = {ConfigType.INT: INT32_MAX, ConfigType.LONG: INT64_MAX, ConfigType.DOUBLE: float("inf")}


class ConfigSource(IntEnum):
    """Where a value comes from (DescribeConfigs v1, `DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The values of configs that a topic does not set itself, and the limits of those that it sets."""

    retention: Retention
    max_message_bytes: int
    ack_quorum: int = 1
    ledger_bytes: int | None = None
    ledger_ms: int | None = None
    entry_format: str = PULSAR

    def value(self, name: str) -> str | None:
        """The value of a config that is not set; None if there is none to show."""
        values: dict[str, object] = {
            "retention.ms": _unscaled(self.retention.minutes, _MINUTE),
            "retention.bytes": _unscaled(self.retention.megabytes, _MEGABYTE),
            "entry.format": self.entry_format,
            "max.message.bytes": self.max_message_bytes,
            "min.insync.replicas": self.ack_quorum,
            "segment.bytes": self.ledger_bytes,
            "segment.ms": self.ledger_ms,
        }
        config = TABLE.get(name)
        found = values.get(name, config and config.default)
        return None if found is None else str(found)


class Policies(NamedTuple):
    """A topic's own policies in Pulsar; None: those of the namespace apply."""

    retention: Retention | None = None
    compaction_threshold: int | None = None


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs shows it."""

    name: str
    value: str
    read_only: bool
    source: ConfigSource
    type: ConfigType
    documentation: str
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


def validate(
    asked: Mapping[str, str | None], defaults: TopicDefaults, present: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The configs to keep: all that are asked for; INVALID_CONFIG, naming the config, if one is not supported.

    `present`: those that the topic has. What of them stays as it is may be older than a rule, or of a newer node.
    """
    kept: dict[str, str] = {}
    for name, value in asked.items():
        config = TABLE.get(name)
        if present is not None and value is not None and present.get(name) == value:
            kept[name] = value
            continue
        if config is None:
            raise _invalid(f"Unknown topic config name: {name}")
        if value is None:
            raise _invalid(f"Null value not supported for topic configs: {name}")
        kept[name] = checked_value(config, value)
        if config.support is ConfigSupport.FIXED:
            _check_fixed(config, kept[name], defaults)
    if is_compacted(kept) and kept.get("entry.format") == KAFKA:
        raise _invalid(
            "entry.format is pulsar where cleanup.policy says compact: Pulsar cannot compact Kafka's batches"
        )
    largest = int(kept.get("max.message.bytes", 0))
    if largest > defaults.max_message_bytes:
        text = f"max.message.bytes {largest} is above what the bridge takes, {defaults.max_message_bytes}"
        raise _invalid(text)
    return kept


def checked_value(config: Config, value: str) -> str:
    """The value as it is kept; INVALID_CONFIG if it is none of the config's."""
    value = value.strip()
    _check_type(config, value)
    return _normal(config, value)


def to_policies(configs: Mapping[str, str], defaults: TopicDefaults) -> Policies:
    """The Pulsar policies that implement these configs."""
    cleanup = configs.get("cleanup.policy", "delete").split(",")
    retention = None
    if "delete" not in cleanup:
        # Kafka keeps each key's last value forever. Pulsar keeps it in the compacted ledger, but the bridge reads the
        # log itself, which has it only as long as the log is kept.
        retention = FOREVER
    elif "retention.ms" in configs or "retention.bytes" in configs:
        minutes, megabytes = defaults.retention.minutes or -1, defaults.retention.megabytes or -1
        if "retention.ms" in configs:
            minutes = _scaled(int(configs["retention.ms"]), _MINUTE)
        if "retention.bytes" in configs:
            megabytes = _scaled(int(configs["retention.bytes"]), _MEGABYTE)
        retention = Retention(minutes, megabytes)
    return Policies(retention, COMPACTION_THRESHOLD if "compact" in cleanup else None)


def current_configs(configs: Mapping[str, str], actual: Policies, defaults: TopicDefaults) -> dict[str, str]:
    """The topic's own configs: those kept with it, except where Pulsar's policies have been changed since."""
    expected = to_policies(configs, defaults)
    found = dict(configs)
    if actual.retention != expected.retention:
        found.pop("retention.ms", None)
        found.pop("retention.bytes", None)
        if actual.retention is not None:
            found["retention.ms"] = str(_unscaled(actual.retention.minutes, _MINUTE))
            found["retention.bytes"] = str(_unscaled(actual.retention.megabytes, _MEGABYTE))
    if bool(actual.compaction_threshold) != bool(expected.compaction_threshold):
        found.pop("cleanup.policy", None)
        if actual.compaction_threshold:
            whole = (actual.retention or defaults.retention) == FOREVER
            found["cleanup.policy"] = "compact" if whole else "compact,delete"
    return found


def describe(configs: Mapping[str, str], actual: Policies, defaults: TopicDefaults) -> list[ConfigEntry]:
    """Every config with its true value, by name."""
    shown = current_configs(configs, actual, defaults)
    defaults = replace(defaults, entry_format=entry_format(shown, defaults.entry_format))
    found = (_entry(config, shown.get(config.name), defaults) for config in TABLE.values())
    return sorted(entry for entry in found if entry is not None)


def _entry(config: Config, value: str | None, defaults: TopicDefaults) -> ConfigEntry | None:
    default = defaults.value(config.name)
    shown, source = (default, ConfigSource.DEFAULT) if value is None else (value, ConfigSource.TOPIC)
    if shown is None:
        return None
    synonyms = []  # the one that holds comes first
    if value is not None:
        synonyms.append((config.name, value, ConfigSource.TOPIC))
    if default is not None and config.broker_name:
        synonyms.append((config.broker_name, default, ConfigSource.DEFAULT))
    return ConfigEntry(config.name, shown, False, source, config.type, config.documentation, tuple(synonyms))


class Operation(IntEnum):
    """An operation of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def apply_operations(
    configs: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    default: Callable[[str], str | None] = lambda name: None,
) -> dict[str, str | None]:
    """The configs after these (name, operation, value), before they are checked. `default`: of a list."""
    result: dict[str, str | None] = dict(configs)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            result.pop(name, None)
        elif operation == Operation.SET:
            result[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            present = result.get(name)
            present = default(name) or "" if present is None else present
            result[name] = _edited(name, Operation(operation), present, value or "")
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no operation {operation} on configs")
    return result


def _edited(name: str, operation: Operation, present: str, value: str) -> str:
    """A list with items added or removed, as in `ConfigurationControlManager`."""
    config = TABLE.get(name)
    if config is None or config.type is not ConfigType.LIST:
        raise _invalid(f"Can't {operation.name} to key {name} because its type is not LIST.")
    items = _list(present)
    given = [part.strip() for part in value.split(",")]
    return ",".join(_without(items, given) if operation is Operation.SUBTRACT else [*items, *_without(given, items)])


def _without(items: list[str], others: list[str]) -> list[str]:
    taken = set(others)  # clients choose how long both lists are
    return [item for item in items if item not in taken]


def _list(text: str) -> list[str]:
    """The items of a list as `ConfigDef` reads it: nothing between two commas is an item, too."""
    return [part.strip() for part in text.split(",")] if text else []


def _check_type(config: Config, value: str) -> None:
    """As `ConfigDef` does, with the same texts: tools look for them."""
    if config.choices:
        for item in _list(value) if config.type is ConfigType.LIST else (value,):
            if item not in config.choices:
                raise _wrong(config, item, f"String must be one of: {', '.join(config.choices)}")
    if config.type is ConfigType.BOOLEAN:
        if value.lower() not in ("true", "false"):
            raise _wrong(config, value, "Expected value to be either true or false")
    elif config.type in _LARGEST:
        _check_number(config, value)
    elif config.fault is not None and (fault := config.fault(value)) is not None:
        raise _wrong(config, value, fault)


def _check_number(config: Config, value: str) -> None:
    number = _number(value, config.type)
    if number is None:
        raise _wrong(config, value, f"Not a number of type {config.type.name}")
    if number == config.apart or config.minimum <= number <= config.maximum:
        return
    if config.apart is not None:
        reason = f"Value must be between {config.minimum} and {config.maximum} or equal to {config.apart}"
    elif number < config.minimum:
        reason = f"Value must be at least {config.minimum}"
    else:
        reason = f"Value must be no more than {config.maximum}"
    raise _wrong(config, number, reason)


def _number(text: str, type: ConfigType) -> float | None:
    """The number in a text; None if it is no number of the type."""
    try:
        number = float(text) if type is ConfigType.DOUBLE else int(text)
    except ValueError:
        return None
    largest = _LARGEST[type]
    return number if "_" not in text and -largest - 1 <= number <= largest else None


def _wrong(config: Config, value: object, reason: str) -> KafkaError:
    return _invalid(f"Invalid value {value} for configuration {config.name}: {reason}")


def _check_fixed(config: Config, value: str, defaults: TopicDefaults) -> None:
    truth = defaults.value(config.name)
    if config.name == "min.insync.replicas" and int(value) <= defaults.ack_quorum:
        return
    if value.lower() != str(truth).lower():
        raise _invalid(f"{config.name} is {truth or 'empty'} here and cannot be {value}: {config.documentation}")


def _normal(config: Config, value: str) -> str:
    if config.type is ConfigType.LIST:
        return ",".join(_list(value))
    if config.type in (ConfigType.INT, ConfigType.LONG):
        return str(int(value))
    if config.type is ConfigType.DOUBLE:
        return str(float(value))
    return value.lower() if config.type is ConfigType.BOOLEAN else value


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)


def _scaled(value: int, unit: int) -> int:
    """A limit in Pulsar's coarser units, rounded up to 1 or more: with 0 Pulsar would keep nothing at all."""
    scaled = max(-(-value // unit), 1)
    return -1 if value < 0 or scaled > INT32_MAX else scaled


def _unscaled(value: int, unit: int) -> int:
    return -1 if value == -1 else value * unit
