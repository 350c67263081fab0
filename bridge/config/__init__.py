"""The settings: what each may be, read from a TOML file with the environment over it, refused by name when wrong."""

from bridge.config.loading import ENV_PREFIX, OTHER_VARIABLES, load, load_text
from bridge.config.rules import Address, admin_urls
from bridge.config.sections import (
    ClusterSettings,
    GroupSettings,
    HttpSettings,
    KafkaSettings,
    LogSettings,
    PulsarSettings,
    RetentionSettings,
    Settings,
    StorageSettings,
)

__all__ = [
    "ENV_PREFIX",
    "OTHER_VARIABLES",
    "Address",
    "ClusterSettings",
    "GroupSettings",
    "HttpSettings",
    "KafkaSettings",
    "LogSettings",
    "PulsarSettings",
    "RetentionSettings",
    "Settings",
    "StorageSettings",
    "admin_urls",
    "load",
    "load_text",
]
