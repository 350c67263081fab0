"""Pulsar's admin REST interface."""

from bridge.pulsar.admin.admin import (
    Admin,
    CompactionStatus,
    InternalStats,
    LedgerInfo,
    PartitionedMetadata,
    Retention,
)
from bridge.pulsar.admin.rest import NO_RESPONSE, AdminError, Conflict, Forbidden, NotFound

__all__ = [
    "NO_RESPONSE",
    "Admin",
    "AdminError",
    "CompactionStatus",
    "Conflict",
    "Forbidden",
    "InternalStats",
    "LedgerInfo",
    "NotFound",
    "PartitionedMetadata",
    "Retention",
]
