"""What the bridge stores in a topic's properties in Pulsar, which are deleted with the topic."""

import json
from collections.abc import Mapping

from bridge.codec.compression import KafkaCodec
from bridge.storage.entries import KAFKA, PULSAR

CONFIGS = "kafka.configs"
"""The configs that clients have set, as JSON."""
CODECS = {"uncompressed": KafkaCodec.NONE} | {one.name.lower(): one for one in KafkaCodec if one}
"""The values of compression.type but for `producer`."""
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
BEFORE_MAX_MS, AFTER_MAX_MS = (1 << 63) - 1, 3_600_000
"""The defaults of these two, as in Kafka 4.0 (KIP-1030)."""
_LOG_START = "kafka.log.start."
_KOP_FORMAT = "kafkaEntryFormat"  # set by KoP on topics that are not of its default format
_OF_KOP = {"pulsar": PULSAR, "kafka": KAFKA, "mixed_kafka": KAFKA}


def log_start_property(partition: int) -> str:
    """The property with the first offset that DeleteRecords has left in a partition."""
    return f"{_LOG_START}{partition}"


def log_start(properties: Mapping[str, str], partition: int) -> int:
    """The first offset of a partition that may be read; 0 unless records were deleted."""
    try:
        return int(properties.get(log_start_property(partition), 0))
    except ValueError:
        return 0


def configs(properties: Mapping[str, str]) -> dict[str, str]:
    """The configs that clients have set, here or with KoP."""
    try:
        found = json.loads(properties.get(CONFIGS, "{}"))
    except ValueError:
        found = {}
    result = {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    kop_s = _OF_KOP.get(properties.get(_KOP_FORMAT, ""))
    return result if kop_s is None or is_compacted(result) else {"entry.format": kop_s, **result}


def max_message_bytes(configs: Mapping[str, str]) -> int | None:
    """The largest batch that clients may send; None if it is not set."""
    return _number(configs, "max.message.bytes")


def max_timestamp_distances(configs: Mapping[str, str]) -> tuple[int, int]:
    """How far in the past and in the future, in ms, timestamps of new records may be."""
    before, after = _number(configs, TIMESTAMP_BEFORE), _number(configs, TIMESTAMP_AFTER)
    return BEFORE_MAX_MS if before is None else before, AFTER_MAX_MS if after is None else after


def _number(configs: Mapping[str, str], name: str) -> int | None:
    value = configs.get(name, "")
    return int(value) if value.isdecimal() else None


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether the cleanup.policy includes compact."""
    return "compact" in configs.get("cleanup.policy", "").split(",")


def entry_format(configs: Mapping[str, str], default: str) -> str:
    """How new batches are stored. Pulsar cannot compact entries of format kafka: they hold no messages of its own."""
    return PULSAR if is_compacted(configs) else configs.get("entry.format", default)


def codec(configs: Mapping[str, str]) -> KafkaCodec | None:
    """What batches are compressed with; None: as their producers did."""
    return CODECS.get(configs.get("compression.type", ""))


def with_configs(values: Mapping[str, str]) -> dict[str, str]:
    """The properties that keep these configs."""
    return {CONFIGS: json.dumps(dict(sorted(values.items())), separators=(",", ":"))}
