"""Whether nodes have the settings in common that clients would notice: what each tells the others of its own."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from bridge.config import Settings

_OF_KAFKA: Final = (
    "auto_create_topics", "default_partitions", "max_partitions", "max_partitions_per_topic", "max_request_bytes",
)  # fmt: skip
_OF_AUTHORIZER: Final = ("allow_everyone_if_no_acl_found", "authorizer", "super_users")
_OF_STORAGE: Final = ("entry_format", "fetch_compression")
_RACKS: Final = "rack_aware_fetch"
_NOT_OF_GROUPS: Final = "max_metadata_bytes"
"""The memory of one process, of which workers of one machine have parts (`kafka.workers`)."""


def fingerprint(settings: Settings) -> str:
    """A few characters for each section: `kafka:1f0c…,storage:…`."""
    sections: Mapping[str, Mapping[str, Any]] = {
        "kafka": {name: getattr(settings.kafka, name) for name in _OF_KAFKA},
        "messages": {"max_message_bytes": settings.kafka.max_message_bytes},
        "storage": {name: getattr(settings.storage, name) for name in _OF_STORAGE},
        "authorizer": {name: getattr(settings.kafka, name) for name in _OF_AUTHORIZER},
        "retention": asdict(settings.retention),
        "cluster": {"addressing": settings.cluster.addressing},
        "tenants": asdict(settings.tenants),
        "groups": {name: value for name, value in asdict(settings.groups).items() if name != _NOT_OF_GROUPS},
        "transactions": asdict(settings.transactions),
    }
    hashes = [f"{section}:{_hash(values)}" for section, values in sections.items()]
    return ",".join([*hashes, f"{_RACKS}:{'on' if settings.cluster.rack_aware_fetch else 'off'}"])


def is_rack_aware(told: str) -> bool:
    """Whether a node with this fingerprint has `cluster.rack_aware_fetch`."""
    return _sections(told).get(_RACKS) == "on"


def different_sections(one: str, other: str) -> list[str]:
    """The sections in which two fingerprints differ; sections that only one has, of another version, say nothing."""
    first, second = _sections(one), _sections(other)
    return [section for section in first if section in second and first[section] != second[section]]


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _sections(text: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in text.split(",") if part)
    return {section: value for section, _, value in pairs}
