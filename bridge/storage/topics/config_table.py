"""The topic configs that exist here: for each its type, its legal values and how far the bridge supports it.

No config is accepted and then ignored. What a client may do with one is its `ConfigSupport`; a config that is not in
the table is refused by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from bridge.storage.entries import KAFKA, PULSAR
from bridge.storage.topic_properties import AFTER_MAX_MS, BEFORE_MAX_MS, TIMESTAMP_AFTER, TIMESTAMP_BEFORE

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The type of a config's value (DescribeConfigs v3)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSupport(Enum):
    """What a client may set a topic config to."""

    APPLIED = "applied"
    """Any legal value: a Pulsar topic policy, or the bridge itself, does what the config says."""
    SATISFIED = "satisfied"
    """Any legal value: what Kafka promises by it holds here already.

    The value is kept with the topic and shown, as programs that set it expect (Kafka Streams sets segment.bytes on
    every topic).
    """
    FIXED = "fixed"
    """Its true value, kept and shown like any. Any other value is refused with the reason."""


@dataclass(frozen=True, slots=True)
class Config:
    """One topic config."""

    name: str
    type: ConfigType
    support: ConfigSupport
    documentation: str
    broker_name: str = ""
    """What Kafka calls the broker's default for it."""
    default: str | None = None
    """Its value where the topic sets none; None: it is up to Pulsar or the bridge's settings (`TopicDefaults`)."""
    minimum: float = -1
    maximum: float = INT64_MAX
    apart: int | None = None
    """A value that is legal beside those from `minimum` to `maximum`."""
    choices: tuple[str, ...] = ()
    fault: Callable[[str], str | None] | None = None
    """Why a text is none of its values, where no list and no number says so."""


_KAFKA_FILES: Final = (
    "Kafka's files are not here: Pulsar writes ledgers, whose sizes its brokers set. Kept and shown as asked for; "
)
_LEVEL: Final = (
    "Kept and shown as asked for. The records are the same at every level; what is compressed here is at the quickest."
)
_TIERS: Final = "Remote storage is off, so there is nothing that it could say; kept and shown as asked for."

TABLE: Final[Mapping[str, Config]] = {
    config.name: config
    for config in (
        Config(
            "cleanup.policy",
            ConfigType.LIST,
            ConfigSupport.APPLIED,
            "delete: by retention. compact: every record is kept forever, and Pulsar compacts for its own "
            "readers. Both: compacted, and deleted by retention. Neither: all is kept forever.",
            broker_name="log.cleanup.policy",
            choices=("compact", "delete"),
            default="delete",
        ),
        Config(
            "retention.ms",
            ConfigType.LONG,
            ConfigSupport.APPLIED,
            "How long records are kept, -1 forever: Pulsar's topic retention, in whole minutes, never less "
            "than asked for.",
            broker_name="log.retention.ms",
        ),
        Config(
            "retention.bytes",
            ConfigType.LONG,
            ConfigSupport.APPLIED,
            "How many bytes of a partition are kept, -1 all: Pulsar's topic retention, in whole megabytes, "
            "never less than asked for.",
            broker_name="log.retention.bytes",
            minimum=-INT64_MAX - 1,
        ),
        Config(
            "max.message.bytes",
            ConfigType.INT,
            ConfigSupport.APPLIED,
            "The largest batch taken from Kafka clients, as they send it. One above Pulsar's maxMessageSize becomes "
            "several entries, and a record above it a message in chunks.",
            broker_name="message.max.bytes",
            minimum=0,
            maximum=INT32_MAX,
        ),
        Config(
            "segment.bytes",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "retention is honoured either way.",
            broker_name="log.segment.bytes",
            minimum=14,
            maximum=INT32_MAX,
        ),
        Config(
            "segment.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "retention is honoured either way.",
            broker_name="log.roll.ms",
            minimum=1,
        ),
        Config(
            "segment.jitter.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "retention is honoured either way.",
            broker_name="log.roll.jitter.ms",
            minimum=0,
            default="0",
        ),
        Config(
            "segment.index.bytes",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "every offset is found.",
            broker_name="log.index.size.max.bytes",
            minimum=4,
            maximum=INT32_MAX,
            default="10485760",
        ),
        Config(
            "index.interval.bytes",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "every offset is found.",
            broker_name="log.index.interval.bytes",
            minimum=0,
            maximum=INT32_MAX,
            default="4096",
        ),
        Config(
            "file.delete.delay.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "nothing is deleted earlier than retention says.",
            broker_name="log.segment.delete.delay.ms",
            minimum=0,
            default="60000",
        ),
        Config(
            "preallocate",
            ConfigType.BOOLEAN,
            ConfigSupport.SATISFIED,
            _KAFKA_FILES + "clients see no difference.",
            broker_name="log.preallocate",
            default="false",
        ),
        Config(
            "flush.messages",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            "Each batch is on a bookie's disk before it is acknowledged, which is more than any value asks for.",
            broker_name="log.flush.interval.messages",
            minimum=1,
            default="1",
        ),
        Config(
            "flush.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            "Each batch is on a bookie's disk before it is acknowledged, which is more than any value asks for.",
            broker_name="log.flush.interval.ms",
            minimum=0,
            default="0",
        ),
        Config(
            "delete.retention.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            "The least time for which tombstones stay: they are never taken out, which is more than any "
            "value asks for.",
            broker_name="log.cleaner.delete.retention.ms",
            minimum=0,
            default=str(INT64_MAX),
        ),
        Config(
            "min.compaction.lag.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            "The least time before a record may be compacted away: none is, which is more than any value asks for.",
            broker_name="log.cleaner.min.compaction.lag.ms",
            minimum=0,
            default="0",
        ),
        Config(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            ConfigSupport.SATISFIED,
            "Compaction takes nothing from Kafka clients at any ratio; Pulsar compacts for its own readers by size.",
            broker_name="log.cleaner.min.cleanable.ratio",
            minimum=0,
            maximum=1,
            default="0.5",
        ),
        Config(
            "compression.type",
            ConfigType.STRING,
            ConfigSupport.APPLIED,
            "How batches are stored, and given to consumers: as their producer compressed them, or all by "
            "one codec, or none.",
            broker_name="compression.type",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            default="producer",
        ),
        Config(
            "compression.gzip.level",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _LEVEL,
            broker_name="compression.gzip.level",
            minimum=1,
            maximum=9,
            apart=-1,
            default="1",
        ),
        Config(
            "compression.lz4.level",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _LEVEL,
            broker_name="compression.lz4.level",
            minimum=1,
            maximum=17,
            default="1",
        ),
        Config(
            "compression.zstd.level",
            ConfigType.INT,
            ConfigSupport.SATISFIED,
            _LEVEL,
            broker_name="compression.zstd.level",
            minimum=-131072,
            maximum=22,
            default="1",
        ),
        Config(
            "entry.format",
            ConfigType.STRING,
            ConfigSupport.APPLIED,
            "How new batches stand in Pulsar. pulsar: each record a message that native consumers read. "
            "kafka: as they came, which only the bridge and KoP read.",
            choices=(PULSAR, KAFKA),
        ),
        Config(
            "message.timestamp.type",
            ConfigType.STRING,
            ConfigSupport.FIXED,
            "Timestamps are the producers'.",
            broker_name="log.message.timestamp.type",
            choices=("CreateTime", "LogAppendTime"),
            default="CreateTime",
        ),
        Config(
            TIMESTAMP_BEFORE,
            ConfigType.LONG,
            ConfigSupport.APPLIED,
            "How old the timestamp of a new record may be.",
            broker_name="log.message.timestamp.before.max.ms",
            minimum=0,
            default=str(BEFORE_MAX_MS),
        ),
        Config(
            TIMESTAMP_AFTER,
            ConfigType.LONG,
            ConfigSupport.APPLIED,
            "How far ahead of the bridge's clock the timestamp of a new record may be.",
            broker_name="log.message.timestamp.after.max.ms",
            minimum=0,
            default=str(AFTER_MAX_MS),
        ),
        Config(
            "min.insync.replicas",
            ConfigType.INT,
            ConfigSupport.FIXED,
            "The copies that have acknowledged when a produce is answered: Pulsar's ack quorum for the "
            "topic. Asking for fewer is granted.",
            broker_name="min.insync.replicas",
            minimum=1,
            maximum=INT32_MAX,
        ),
        Config(
            "max.compaction.lag.ms",
            ConfigType.LONG,
            ConfigSupport.FIXED,
            "No record has to be compacted by any time.",
            broker_name="log.cleaner.max.compaction.lag.ms",
            minimum=1,
            default=str(INT64_MAX),
        ),
        Config(
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            ConfigSupport.FIXED,
            "BookKeeper never takes back what it has acknowledged.",
            broker_name="unclean.leader.election.enable",
            default="false",
        ),
        Config(
            "remote.storage.enable",
            ConfigType.BOOLEAN,
            ConfigSupport.FIXED,
            "Offloading is a policy of Pulsar's namespaces.",
            default="false",
        ),
        Config(
            "local.retention.ms",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            _TIERS,
            broker_name="log.local.retention.ms",
            minimum=-2,
            default="-2",
        ),
        Config(
            "local.retention.bytes",
            ConfigType.LONG,
            ConfigSupport.SATISFIED,
            _TIERS,
            broker_name="log.local.retention.bytes",
            minimum=-2,
            default="-2",
        ),
        Config(
            "remote.log.copy.disable",
            ConfigType.BOOLEAN,
            ConfigSupport.SATISFIED,
            _TIERS,
            default="false",
        ),
        Config(
            "remote.log.delete.on.disable",
            ConfigType.BOOLEAN,
            ConfigSupport.SATISFIED,
            _TIERS,
            default="false",
        ),
        Config(
            "leader.replication.throttled.replicas",
            ConfigType.LIST,
            ConfigSupport.FIXED,
            "Pulsar replicates by itself.",
            default="",
        ),
        Config(
            "follower.replication.throttled.replicas",
            ConfigType.LIST,
            ConfigSupport.FIXED,
            "Pulsar replicates by itself.",
            default="",
        ),
    )
}
