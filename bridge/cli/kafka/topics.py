"""`bridge topic`: lists, describes, creates, deletes topics, changes their configs."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from bridge.cli.kafka.endpoint import SECONDS, Endpoint, each, result
from bridge.cli.kafka.options import name_and_value
from bridge.cli.table import table


def run(options: argparse.Namespace) -> int:
    """Do what `options.action` says; the exit code."""
    endpoint = Endpoint(options)
    with endpoint.told():
        return _ACTIONS[options.action](endpoint.admin, options)


def offsets(admin: AdminClient, partitions: Sequence[tuple[str, int]], which: OffsetSpec) -> dict[tuple[str, int], int]:
    """An offset of each partition."""
    asked = admin.list_offsets({TopicPartition(*one): which for one in partitions}, request_timeout=SECONDS)
    return {(one.topic, one.partition): result(future, one.topic).offset for one, future in asked.items()}


def _list(admin: AdminClient, options: argparse.Namespace) -> int:
    rows = [(name, len(one.partitions)) for name, one in sorted(admin.list_topics(timeout=SECONDS).topics.items())]
    if options.json:
        print(json.dumps({"topics": [{"name": name, "partitions": count} for name, count in rows]}, indent=1))
    else:
        print(*table(("topic", "partitions"), rows), sep="\n")
    return 0


def _describe(admin: AdminClient, options: argparse.Namespace) -> int:
    told = []
    for name, future in admin.describe_topics(TopicCollection(options.name), request_timeout=SECONDS).items():
        topic = result(future, name)
        partitions = [(name, one.id) for one in topic.partitions]
        first = offsets(admin, partitions, OffsetSpec.earliest())
        end = offsets(admin, partitions, OffsetSpec.latest())
        told.append(
            {
                "name": name,
                "id": str(topic.topic_id),
                "configs": {one.name: one.value for one in _configs(admin, name) if _is_its_own(one)},
                "partitions": [
                    {
                        "partition": one.id,
                        "leader": one.leader.id if one.leader else -1,
                        "first_offset": first[name, one.id],
                        "end_offset": end[name, one.id],
                    }
                    for one in topic.partitions
                ],
            }
        )
    if options.json:
        print(json.dumps({"topics": told}, indent=1))
        return 0
    for one in told:
        print(f"{one['name']}  id {one['id']}")
        for config, value in one["configs"].items():
            print(f"  {config}={value}")
        rows = [tuple(row.values()) for row in one["partitions"]]
        print(*table(("partition", "leader", "first offset", "end offset"), rows), sep="\n")
    return 0


def _create(admin: AdminClient, options: argparse.Namespace) -> int:
    configs = dict(map(name_and_value, options.config_value))
    new = [NewTopic(name, options.partitions or -1, -1, config=configs) for name in options.name]
    return each(admin.create_topics(new, request_timeout=SECONDS), "created")


def _delete(admin: AdminClient, options: argparse.Namespace) -> int:
    return each(admin.delete_topics(options.name, request_timeout=SECONDS), "deleted")


def _grow(admin: AdminClient, options: argparse.Namespace) -> int:
    grown = admin.create_partitions([NewPartitions(options.name, options.count)], request_timeout=SECONDS)
    return each(grown, f"has {options.count} partitions")


def _config(admin: AdminClient, options: argparse.Namespace) -> int:
    if options.changes:
        entries = [
            ConfigEntry(
                name,
                value or None,
                incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
            )
            for name, value in dict(map(name_and_value, options.changes)).items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, options.name, incremental_configs=entries)
        (changed,) = admin.incremental_alter_configs([resource], request_timeout=SECONDS).values()
        return each({options.name: changed}, "changed")
    rows = [(one.name, one.value, ConfigSource(one.source).name) for one in _configs(admin, options.name)]
    if options.json:
        named = [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]
        print(json.dumps({"name": options.name, "configs": named}, indent=1))
    else:
        print(*table(("config", "value", "source"), rows), sep="\n")
    return 0


def _configs(admin: AdminClient, name: str) -> list[Any]:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)], request_timeout=SECONDS).values()
    return sorted(result(future, name).values(), key=lambda one: str(one.name))


def _is_its_own(config: Any) -> bool:
    return bool(config.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value)


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "delete": _delete,
    "grow": _grow,
    "config": _config,
}
