"""Kafka's topic configs as they are here: the table, its rules, and Pulsar's policies for them.

Nothing is accepted and ignored. A config is one of these:

- CARRIED: settable; a Pulsar topic policy, or the bridge itself, does what it says.
- HELD: settable to any legal value, because whatever Kafka promises its clients by it holds here already. The value is
  kept with the topic and shown, as the programs that set it expect (Kafka Streams sets segment.bytes on every topic).
- FIXED: shown with its true value; another value is refused with the reason.

Anything else is refused by name. What a client has set is kept in one property of the topic, in Kafka's words, so that
it comes back as it was given; where Pulsar's own policy says otherwise since, the policy is what is shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention
from bridge.storage.entries import KAFKA, PULSAR
from bridge.storage.topics.topic_properties import (
    AFTER_MAX_MS,
    BEFORE_MAX_MS,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    entry_format,
    is_compacted,
)

COMPACTION_THRESHOLD: Final = 64 * 1024 * 1024
"""The bytes of new data after which Pulsar compacts a topic with cleanup.policy=compact."""
FOREVER: Final = Retention(-1, -1)
_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1
_MINUTE, _MEGABYTE = 60_000, 1 << 20


class Kind(IntEnum):
    """The type of a config's value (DescribeConfigs v3)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LARGEST: Final = {Kind.INT: _INT32_MAX, Kind.LONG: _INT64_MAX, Kind.DOUBLE: float("inf")}


class Source(IntEnum):
    """Where a value comes from (DescribeConfigs v1, `DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6


class Way(Enum):
    """How a config is dealt with; see above."""

    CARRIED = "carried"
    HELD = "held"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Config:
    """One topic config."""

    name: str
    kind: Kind
    way: Way
    about: str
    broker: str = ""
    """What Kafka calls the broker's default for it."""
    low: float = -1
    high: float = _INT64_MAX
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a topic without any config of its own, and the limits on these."""

    retention: Retention
    max_message_bytes: int
    ack_quorum: int = 1
    ledger_bytes: int | None = None
    ledger_ms: int | None = None
    entry_format: str = PULSAR

    def default(self, name: str) -> str | None:
        """The value of a config that nobody has set; None where there is none to show."""
        values: dict[str, object] = {
            **_ALWAYS,
            "retention.ms": _unscaled(self.retention.minutes, _MINUTE),
            "retention.bytes": _unscaled(self.retention.megabytes, _MEGABYTE),
            "entry.format": self.entry_format,
            "max.message.bytes": self.max_message_bytes,
            "min.insync.replicas": self.ack_quorum,
            "segment.bytes": self.ledger_bytes,
            "segment.ms": self.ledger_ms,
        }
        found = values.get(name)
        return None if found is None else str(found)


class Policies(NamedTuple):
    """The policies of its own that a topic has in Pulsar; None: the namespace's hold."""

    retention: Retention | None = None
    compaction_threshold: int | None = None


class Entry(NamedTuple):
    """One config as DescribeConfigs tells it."""

    name: str
    value: str
    read_only: bool
    source: Source
    kind: Kind
    about: str
    synonyms: tuple[tuple[str, str, Source], ...]


_ALWAYS: Final[dict[str, object]] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": _INT64_MAX,
    "flush.messages": 1,
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "",
    "max.compaction.lag.ms": _INT64_MAX,
    TIMESTAMP_AFTER: AFTER_MAX_MS,
    TIMESTAMP_BEFORE: BEFORE_MAX_MS,
    "message.timestamp.type": "CreateTime",
    "min.compaction.lag.ms": 0,
    "preallocate": "false",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "false",
}
_FILES = "Kafka's files are not here: Pulsar writes ledgers, whose sizes its brokers set. Kept and shown as asked for; "
_WHOLE = _FILES + "retention is honoured either way."

TABLE: Final[Mapping[str, Config]] = {
    config.name: config
    for config in (
        Config("cleanup.policy", Kind.LIST, Way.CARRIED, "delete: by retention. compact: every record is kept for "
               "ever, and Pulsar compacts for its own readers. Both: compacted, and deleted by retention. Neither: all "
               "is kept for ever.", "log.cleanup.policy", choices=("compact", "delete")),
        Config("retention.ms", Kind.LONG, Way.CARRIED, "How long records are kept, -1 for ever: Pulsar's topic "
               "retention, in whole minutes, never less than asked for.", "log.retention.ms"),
        Config("retention.bytes", Kind.LONG, Way.CARRIED, "How many bytes of a partition are kept, -1 all: Pulsar's "
               "topic retention, in whole megabytes, never less than asked for.", "log.retention.bytes", -_INT64_MAX),
        Config("max.message.bytes", Kind.INT, Way.CARRIED, "The largest batch taken from Kafka clients, as they send "
               "it. One record must be within Pulsar's maxMessageSize; a larger batch becomes several entries.",
               "message.max.bytes", 0, _INT32_MAX),
        Config("segment.bytes", Kind.INT, Way.HELD, _WHOLE, "log.segment.bytes", 14, _INT32_MAX),
        Config("segment.ms", Kind.LONG, Way.HELD, _WHOLE, "log.roll.ms", 1),
        Config("segment.jitter.ms", Kind.LONG, Way.HELD, _WHOLE, "log.roll.jitter.ms", 0),
        Config("segment.index.bytes", Kind.INT, Way.HELD, _FILES + "every offset is found.",
               "log.index.size.max.bytes", 4, _INT32_MAX),
        Config("index.interval.bytes", Kind.INT, Way.HELD, _FILES + "every offset is found.",
               "log.index.interval.bytes", 0, _INT32_MAX),
        Config("file.delete.delay.ms", Kind.LONG, Way.HELD, _FILES + "nothing is deleted earlier than retention says.",
               "log.segment.delete.delay.ms", 0),
        Config("preallocate", Kind.BOOLEAN, Way.HELD, _FILES + "clients see no difference.", "log.preallocate"),
        Config("flush.messages", Kind.LONG, Way.HELD, "Each batch is on a bookie's disk before it is acknowledged, "
               "which is more than any value asks for.", "log.flush.interval.messages", 1),
        Config("flush.ms", Kind.LONG, Way.HELD, "Each batch is on a bookie's disk before it is acknowledged, which is "
               "more than any value asks for.", "log.flush.interval.ms", 0),
        Config("delete.retention.ms", Kind.LONG, Way.HELD, "The least time for which tombstones stay: they are never "
               "taken out, which is more than any value asks for.", "log.cleaner.delete.retention.ms", 0),
        Config("min.compaction.lag.ms", Kind.LONG, Way.HELD, "The least time before a record may be compacted away: "
               "none is, which is more than any value asks for.", "log.cleaner.min.compaction.lag.ms", 0),
        Config("min.cleanable.dirty.ratio", Kind.DOUBLE, Way.HELD, "Compaction takes nothing from Kafka clients at "
               "any ratio; Pulsar compacts for its own readers by size.", "log.cleaner.min.cleanable.ratio", 0, 1),
        Config("compression.type", Kind.STRING, Way.CARRIED, "How batches are stored, and given to consumers: as their "
               "producer compressed them, or all by one codec, or none.", "compression.type",
               choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        Config("entry.format", Kind.STRING, Way.CARRIED, "How new batches stand in Pulsar. pulsar: each record a "
               "message that native consumers read. kafka: as they came, which only the bridge and KoP read.",
               choices=(PULSAR, KAFKA)),
        Config("message.timestamp.type", Kind.STRING, Way.FIXED, "Timestamps are the producers'.",
               "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")),
        Config(TIMESTAMP_BEFORE, Kind.LONG, Way.CARRIED, "How old the timestamp of a new record may be.",
               "log.message.timestamp.before.max.ms", 0),
        Config(TIMESTAMP_AFTER, Kind.LONG, Way.CARRIED, "How far ahead of the bridge's clock the timestamp of a new "
               "record may be.", "log.message.timestamp.after.max.ms", 0),
        Config("min.insync.replicas", Kind.INT, Way.FIXED, "The copies that have acknowledged when a produce is "
               "answered: Pulsar's ack quorum for the topic. Asking for fewer is granted.", "min.insync.replicas", 1,
               _INT32_MAX),
        Config("max.compaction.lag.ms", Kind.LONG, Way.FIXED, "No record has to be compacted by any time.",
               "log.cleaner.max.compaction.lag.ms", 1),
        Config("unclean.leader.election.enable", Kind.BOOLEAN, Way.FIXED, "BookKeeper never takes back what it has "
               "acknowledged.", "unclean.leader.election.enable"),
        Config("remote.storage.enable", Kind.BOOLEAN, Way.FIXED, "Offloading is a policy of Pulsar's namespaces."),
        Config("leader.replication.throttled.replicas", Kind.LIST, Way.FIXED, "Pulsar replicates by itself."),
        Config("follower.replication.throttled.replicas", Kind.LIST, Way.FIXED, "Pulsar replicates by itself."),
    )
}  # fmt: skip


def checked(asked: Mapping[str, str | None], facts: Facts) -> dict[str, str]:
    """The configs to keep of those asked for; INVALID_CONFIG, naming the config, for what cannot be had.

    A fixed config that is given its true value, as a client does that writes back what it was shown, is not kept.
    """
    kept: dict[str, str] = {}
    for name, value in asked.items():
        config = TABLE.get(name)
        if config is None:
            raise _invalid(f"Unknown topic config name: {name}")
        if value is None:
            raise _invalid(f"Null value not supported for topic configs: {name}")
        value = value.strip()
        _check_type(config, value)
        if config.way is Way.FIXED:
            _check_fixed(config, value, facts)
        else:
            kept[name] = _normal(config, value)
    if is_compacted(kept) and kept.get("entry.format") == KAFKA:
        raise _invalid(
            "entry.format is pulsar where cleanup.policy says compact: Pulsar cannot compact Kafka's batches"
        )
    largest = int(kept.get("max.message.bytes", 0))
    if largest > facts.max_message_bytes:
        text = f"max.message.bytes {largest} is above kafka.max_request_bytes, {facts.max_message_bytes}"
        raise _invalid(text)
    return kept


def policies(configs: Mapping[str, str], facts: Facts) -> Policies:
    """What these configs are in Pulsar."""
    cleanup = configs.get("cleanup.policy", "delete").split(",")
    retention = None
    if "delete" not in cleanup:
        # Kafka keeps each key's last value for ever. A reader of Pulsar's compacted view would find it in the compacted
        # ledger, but the bridge reads the log itself, where it is there as long as the log is.
        retention = FOREVER
    elif "retention.ms" in configs or "retention.bytes" in configs:
        minutes, megabytes = facts.retention.minutes or -1, facts.retention.megabytes or -1
        if "retention.ms" in configs:
            minutes = _scaled(int(configs["retention.ms"]), _MINUTE)
        if "retention.bytes" in configs:
            megabytes = _scaled(int(configs["retention.bytes"]), _MEGABYTE)
        retention = Retention(minutes, megabytes)
    return Policies(retention, COMPACTION_THRESHOLD if "compact" in cleanup else None)


def current(configs: Mapping[str, str], actual: Policies, facts: Facts) -> dict[str, str]:
    """The configs of the topic's own: those kept with it, but for what was set through Pulsar since."""
    expected = policies(configs, facts)
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
            whole = (actual.retention or facts.retention) == FOREVER
            found["cleanup.policy"] = "compact" if whole else "compact,delete"
    return found


def describe(configs: Mapping[str, str], actual: Policies, facts: Facts) -> list[Entry]:
    """Every config with its true value, by name."""
    shown = current(configs, actual, facts)
    facts = replace(facts, entry_format=entry_format(shown, facts.entry_format))
    found = (_entry(config, shown.get(config.name), facts) for config in TABLE.values())
    return sorted(entry for entry in found if entry is not None)


def _entry(config: Config, value: str | None, facts: Facts) -> Entry | None:
    default = facts.default(config.name)
    inherited = () if default is None else ((config.broker or config.name, default, Source.DEFAULT),)
    if value is not None:
        synonyms = ((config.name, value, Source.TOPIC), *inherited)
        return Entry(config.name, value, config.way is Way.FIXED, Source.TOPIC, config.kind, config.about, synonyms)
    if default is None:
        return None
    return Entry(config.name, default, config.way is Way.FIXED, Source.DEFAULT, config.kind, config.about, inherited)


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with a config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def altered(
    configs: Mapping[str, str], changes: Iterable[tuple[str, int, str | None]], facts: Facts
) -> dict[str, str | None]:
    """The configs after these (name, operation, value); still to be `checked`."""
    result: dict[str, str | None] = dict(configs)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            result.pop(name, None)
        elif operation == Operation.SET:
            result[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            present = result.get(name)
            present = facts.default(name) or "" if present is None else present
            result[name] = _edited(name, Operation(operation), present, value or "")
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no operation {operation} on configs")
    return result


def _edited(name: str, operation: Operation, present: str, value: str) -> str:
    """A list with other items, as `ConfigurationControlManager` makes it."""
    config = TABLE.get(name)
    if config is None or config.kind is not Kind.LIST:
        raise _invalid(f"Can't {operation.name} to key {name} because its type is not LIST.")
    items, given = _items(present), _items(value)
    left = [item for item in items if item not in given]
    return ",".join(left if operation is Operation.SUBTRACT else [*items, *_new(given, items)])


def _new(given: list[str], present: list[str]) -> list[str]:
    return [item for item in given if item not in present]


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


def _check_type(config: Config, value: str) -> None:
    """As `ConfigDef` does, and in its words: tools look for them."""
    if config.choices:
        for item in _items(value) if config.kind is Kind.LIST else (value,):
            if item not in config.choices:
                raise _wrong(config, item, f"String must be one of: {', '.join(config.choices)}")
    if config.kind is Kind.BOOLEAN:
        if value.lower() not in ("true", "false"):
            raise _wrong(config, value, "Expected value to be either true or false")
    elif config.kind in _LARGEST:
        number = _number(value, config.kind)
        if number is None:
            raise _wrong(config, value, f"Not a number of type {config.kind.name}")
        if number < config.low:
            raise _wrong(config, number, f"Value must be at least {config.low}")
        if number > config.high:
            raise _wrong(config, number, f"Value must be no more than {config.high}")


def _number(text: str, kind: Kind) -> float | None:
    """The number that a text stands for; None: none of the kind."""
    try:
        number = float(text) if kind is Kind.DOUBLE else int(text)
    except ValueError:
        return None
    return number if "_" not in text and abs(number) <= _LARGEST[kind] else None


def _wrong(config: Config, value: object, reason: str) -> KafkaError:
    return _invalid(f"Invalid value {value} for configuration {config.name}: {reason}")


def _check_fixed(config: Config, value: str, facts: Facts) -> None:
    truth = facts.default(config.name)
    if config.name == "min.insync.replicas" and int(value) <= facts.ack_quorum:
        return
    if value.lower() != str(truth).lower():
        raise _invalid(f"{config.name} is {truth or 'empty'} here and cannot be {value}: {config.about}")


def _normal(config: Config, value: str) -> str:
    if config.kind is Kind.LIST:
        return ",".join(dict.fromkeys(_items(value)))
    if config.kind in (Kind.INT, Kind.LONG):
        return str(int(value))
    return value.lower()


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)


def _scaled(value: int, unit: int) -> int:
    """In Pulsar's coarser units, never less than asked; Pulsar's 0 keeps nothing at all, not even what is new."""
    scaled = max(-(-value // unit), 1)
    return -1 if value < 0 or scaled > _INT32_MAX else scaled


def _unscaled(value: int, unit: int) -> int:
    return -1 if value == -1 else value * unit
