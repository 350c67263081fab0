"""What the bridge stores in a topic's properties in Pulsar, which are deleted with the topic."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bridge.codec.compression import KafkaCodec
from bridge.storage.entries import KAFKA, PULSAR

CONFIGS = "kafka.configs"
"""The configs that clients have set, as JSON; those that were changed since have a property each (`with_changes`)."""
CODECS = {"uncompressed": KafkaCodec.NONE} | {one.name.lower(): one for one in KafkaCodec if one}
"""The values of compression.type but for `producer`."""
TIMESTAMP_BEFORE, TIMESTAMP_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
BEFORE_MAX_MS, AFTER_MAX_MS = (1 << 63) - 1, 3_600_000
"""The defaults of these two, as in Kafka 4.0 (KIP-1030)."""
_CONFIG = "kafka.config."
_CHANGED = " "
_LOG_START = "kafka.log.start."
_MAX_PARTITION, _MAX_NUMBER = (1 << 31) - 1, (1 << 63) - 1
_MAX_DIGITS = 19
_KOP_FORMAT = "kafkaEntryFormat"  # set by KoP on topics that are not of its default format
_OF_KOP = {"pulsar": PULSAR, "kafka": KAFKA, "mixed_kafka": KAFKA}


def with_log_start(partition: int, offset: int) -> dict[str, str]:
    """The properties that raise the first offset that may be read of a partition.

    Pulsar's properties have no compare-and-set: of two nodes that write one property, the later wins, though its value
    is lower. So the offset is part of a property's name, and the greatest that is there counts. Lower ones that come
    late, or stay, change nothing.
    """
    return {f"{_LOG_START}{partition}.{offset}": ""}


def log_starts(properties: Mapping[str, str]) -> dict[int, int]:
    """The first offset that may be read of each partition whose records were deleted."""
    found: dict[int, int] = {}
    for partition, offset, _ in _log_starts(properties):
        found[partition] = max(offset, found.get(partition, 0))
    return found


def outdated_log_starts(properties: Mapping[str, str], partition: int) -> list[str]:
    """The properties of a partition that say nothing any more, since greater offsets are there."""
    named = {offset: name for index, offset, name in _log_starts(properties) if index == partition}
    return [name for offset, name in named.items() if offset < max(named)]


def _log_starts(properties: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Partition, offset, and the name of the property."""
    for name in properties:
        if name.startswith(_LOG_START):
            partition, _, offset = name[len(_LOG_START) :].partition(".")
            index, start = _whole(partition, _MAX_PARTITION), _whole(offset)
            if index is not None and start is not None:
                yield index, start, name


def configs(properties: Mapping[str, str]) -> dict[str, str]:
    """The configs that clients have set, here or with KoP."""
    result = kept_configs(properties)
    kop_s = _OF_KOP.get(properties.get(_KOP_FORMAT, ""))
    return result if kop_s is None or is_compacted(result) else {"entry.format": kop_s, **result}


def kept_configs(properties: Mapping[str, str]) -> dict[str, str]:
    """The configs that clients have set here."""
    found = _parsed(properties.get(CONFIGS, "{}"))
    result = {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    if not _is_of_earlier_version(properties):
        for name, value in _changed(properties):
            if value is None:
                result.pop(name, None)
            else:
                result[name] = value
    return result


def with_changes(properties: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The properties to add to these, so that the topic has these configs; none where it has them.

    Pulsar's properties have no compare-and-set, but each is changed by itself: where two nodes change different configs
    at the same time, both changes stay. What is not set any more is null. `CONFIGS` has all of them, too, for nodes of
    earlier versions, which know nothing else. The blank before it is lost when such a node writes it: then it counts
    alone, until a config is changed here.
    """
    kept = kept_configs(properties)
    changed = {name for name in kept.keys() | wanted.keys() if kept.get(name) != wanted.get(name)}
    together = {CONFIGS: _CHANGED + with_configs(wanted)[CONFIGS]}
    each, is_outdated = {name for name, _ in _changed(properties)}, _is_of_earlier_version(properties)
    if not changed:  # of two nodes that changed some at the same time, the one that is done last has all together
        return together if each and not is_outdated and properties.get(CONFIGS) != together[CONFIGS] else {}
    if each and is_outdated:  # they count again from now on
        changed |= each | wanted.keys()
    return {**{_CONFIG + name: json.dumps(wanted.get(name)) for name in sorted(changed)}, **together}


def _is_of_earlier_version(properties: Mapping[str, str]) -> bool:
    """Whether a node that knows no property for each config has written the configs last."""
    return CONFIGS in properties and not properties[CONFIGS].startswith(_CHANGED)


def _changed(properties: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """The configs that have a property each; None: not set."""
    for name, text in properties.items():
        if name.startswith(_CONFIG):
            value = _parsed(text)
            if text == "null" or isinstance(value, str):
                yield name[len(_CONFIG) :], value


def _parsed(text: str) -> Any:
    """What a text is in JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def max_message_bytes(configs: Mapping[str, str]) -> int | None:
    """The largest batch that clients may send; None if it is not set."""
    return _number(configs, "max.message.bytes")


def max_timestamp_distances(configs: Mapping[str, str]) -> tuple[int, int]:
    """How far in the past and in the future, in ms, timestamps of new records may be."""
    before, after = _number(configs, TIMESTAMP_BEFORE), _number(configs, TIMESTAMP_AFTER)
    return BEFORE_MAX_MS if before is None else before, AFTER_MAX_MS if after is None else after


def _number(configs: Mapping[str, str], name: str) -> int | None:
    return _whole(configs.get(name, ""))


def _whole(text: str, most: int = _MAX_NUMBER) -> int | None:
    """The number that a text is; None for others, and for numbers that no client could be told."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) > most:
        return None
    return int(text)


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
    """The properties that keep these configs with a new topic."""
    return {CONFIGS: json.dumps(dict(sorted(values.items())), separators=(",", ":"))}
