"""How full everything is that has a limit, for the metrics."""

from bridge.config import Settings
from bridge.requests.api import MAX_WAITING_PARTITIONS, Broker
from bridge.storage.services import Storage
from bridge.telemetry.instruments import Level
from bridge.telemetry.metrics import Metrics


def show(metrics: Metrics, settings: Settings, storage: Storage, broker: Broker) -> None:
    """The levels of one process, from now on."""
    kafka, groups, conversion = settings.kafka, settings.groups, storage.conversion_memory
    metrics.memory |= {
        "requests": Level(lambda: metrics.in_flight_bytes.value, kafka.memory_budget_bytes),
        "answers": Level(lambda: metrics.waiting_answer_bytes.value, kafka.memory_budget_bytes),
        "records": Level(lambda: metrics.storage.cache_bytes.value, settings.storage.cache_bytes),
        "conversion": Level(lambda: conversion.held, conversion.limit),
        "group_members": Level(lambda: metrics.groups.metadata_bytes.value, groups.max_metadata_bytes),
    }
    metrics.places |= {
        "connections": Level(lambda: metrics.connections.value, kafka.max_connections),
        "catchup_readers": Level(lambda: metrics.storage.catchup_readers.value, settings.storage.max_catchup_readers),
        "waiting_fetch_partitions": Level(
            lambda: MAX_WAITING_PARTITIONS - broker.waiting_fetches.left, MAX_WAITING_PARTITIONS
        ),
        "tenant_namespaces": Level(lambda: metrics.tenant_namespaces.value, settings.tenants.max_namespaces),
    }
