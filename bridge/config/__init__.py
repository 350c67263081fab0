"""The settings: what each may be, read from a TOML file with the environment over it, refused by name when wrong."""

from bridge.config.http import HttpSettings
from bridge.config.listeners import INTERNAL, SHORT_FORM, ListenerPlan, ListenerSettings, SecurityProtocol
from bridge.config.loading import ENV_PREFIX, OTHER_VARIABLES, load, load_text
from bridge.config.pulsar import STATE_PREFIX, PulsarSettings
from bridge.config.rules import Address, admin_urls
from bridge.config.sections import (
    ClusterSettings,
    GroupSettings,
    KafkaSettings,
    LogSettings,
    RetentionSettings,
    Settings,
    StorageSettings,
    TransactionSettings,
)
from bridge.config.security import SecuritySettings
from bridge.config.tenants import TenantSettings

__all__ = [
    "ENV_PREFIX",
    "INTERNAL",
    "OTHER_VARIABLES",
    "SHORT_FORM",
    "STATE_PREFIX",
    "Address",
    "ClusterSettings",
    "GroupSettings",
    "HttpSettings",
    "KafkaSettings",
    "ListenerPlan",
    "ListenerSettings",
    "LogSettings",
    "PulsarSettings",
    "RetentionSettings",
    "SecurityProtocol",
    "SecuritySettings",
    "Settings",
    "StorageSettings",
    "TenantSettings",
    "TransactionSettings",
    "admin_urls",
    "load",
    "load_text",
]
