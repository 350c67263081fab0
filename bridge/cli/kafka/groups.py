"""`bridge group`: lists and describes groups with their lag, resets their offsets, deletes them."""

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bridge.cli.kafka.endpoint import SECONDS, Endpoint, KafkaFailed, each, result
from bridge.cli.kafka.topics import offsets
from bridge.cli.table import table
from bridge.errors import SettingsError

_Partition = tuple[str, int]


def run(options: argparse.Namespace) -> int:
    """Do what `options.action` says; the exit code."""
    endpoint = Endpoint(options)
    with endpoint.told():
        return _ACTIONS[options.action](endpoint.admin, options)


def _list(admin: AdminClient, options: argparse.Namespace) -> int:
    listed = result(admin.list_consumer_groups(request_timeout=SECONDS))
    if listed.errors:
        raise listed.errors[0]
    groups = sorted(listed.valid, key=lambda one: str(one.group_id))
    rows = [(one.group_id, one.type.name.lower(), one.state.name.lower()) for one in groups]
    if options.json:
        named = [dict(zip(("group", "type", "state"), row, strict=True)) for row in rows]
        print(json.dumps({"groups": named}, indent=1))
    else:
        print(*table(("group", "type", "state"), rows), sep="\n")
    return 0


def _describe(admin: AdminClient, options: argparse.Namespace) -> int:
    told = []
    for name, future in admin.describe_consumer_groups(options.name, request_timeout=SECONDS).items():
        group = result(future, name)
        committed = _committed(admin, name)
        if group.state.name == "DEAD" and not committed:
            raise KafkaFailed(f"there is no group {name!r}; `bridge group list` shows those that there are")
        told.append(
            {
                "group": name,
                "type": group.type.name.lower(),
                "state": group.state.name.lower(),
                "assignor": group.partition_assignor,
                "coordinator": group.coordinator.id if group.coordinator else -1,
                "members": [
                    {"id": one.member_id, "client": one.client_id, "host": one.host, "instance": one.group_instance_id}
                    for one in group.members
                ],
                "partitions": _positions(admin, group, committed),
            }
        )
    if options.json:
        print(json.dumps({"groups": told}, indent=1))
        return 0
    for one in told:
        print(f"{one['group']}  {one['type']}, {one['state']}, {len(one['members'])} members")
        rows = [tuple("-" if value is None else value for value in row.values()) for row in one["partitions"]]
        print(*table(("topic", "partition", "committed", "end", "lag", "member", "host"), rows), sep="\n")
    return 0


def _committed(admin: AdminClient, name: str) -> dict[_Partition, int]:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=SECONDS)
    found = result(asked[name], name).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def _positions(admin: AdminClient, group: Any, committed: dict[_Partition, int]) -> list[dict[str, Any]]:
    """Of each partition that has a commit or a member; what is not known is None."""
    owners = {
        (one.topic, one.partition): member for member in group.members for one in member.assignment.topic_partitions
    }
    partitions = sorted({*owners, *committed})
    end = offsets(admin, partitions, OffsetSpec.latest()) if partitions else {}
    rows = []
    for one in partitions:
        at, member = committed.get(one), owners.get(one)
        lag = None if at is None else max(0, end[one] - at)
        row = {"topic": one[0], "partition": one[1], "committed": at, "end": end[one], "lag": lag}
        rows.append(row | {"member": member.client_id if member else None, "host": member.host if member else None})
    return rows


def _reset(admin: AdminClient, options: argparse.Namespace) -> int:
    committed = _committed(admin, options.name)
    partitions = _chosen(admin, options.topic) if options.topic else sorted(committed)
    if not partitions:
        raise KafkaFailed(f"{options.name!r} has committed nothing: name a topic with --topic")
    wanted = target(options.to)
    first, end = (offsets(admin, partitions, one) for one in (OffsetSpec.earliest(), OffsetSpec.latest()))
    found = dict.fromkeys(partitions, wanted) if isinstance(wanted, int) else offsets(admin, partitions, wanted)
    # a time after the last record has no offset: -1
    new = {one: min(max(at, first[one]), end[one]) if at >= 0 else end[one] for one, at in found.items()}
    rows = [(*one, committed.get(one, "-"), new[one]) for one in partitions]
    print(*table(("topic", "partition", "committed", "new"), rows), sep="\n")
    if not options.execute:
        print("nothing was changed: --execute does it")
        return 0
    changed = [TopicPartition(*one, new[one]) for one in partitions]
    request = [ConsumerGroupTopicPartitions(options.name, changed)]
    for one in result(admin.alter_consumer_group_offsets(request)[options.name], options.name).topic_partitions:
        if one.error is not None:
            raise KafkaFailed(f"{one.topic} {one.partition}: {one.error.name()}: {one.error.str()}")
    print(f"{options.name} changed")
    return 0


def target(text: str) -> int | OffsetSpec:
    """Where to: an offset, `earliest`, `latest`, or a time."""
    if text in ("earliest", "latest"):
        return OffsetSpec.earliest() if text == "earliest" else OffsetSpec.latest()
    if text.isascii() and text.isdecimal():
        return int(text)
    return OffsetSpec.for_timestamp(milliseconds(text))


def milliseconds(text: str) -> int:
    """An ISO time, UTC where it does not say, as Kafka's; SettingsError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"{text!r} is no offset, earliest, latest, nor a time as 2026-11-27T10:00:00Z") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _chosen(admin: AdminClient, topics: Sequence[str]) -> list[_Partition]:
    """Of each `TOPIC`, or `TOPIC:0,1`, the partitions."""
    known = admin.list_topics(timeout=SECONDS).topics
    found = []
    for one in topics:
        name, colon, numbers = one.partition(":")
        if name not in known:
            raise KafkaFailed(f"there is no topic {name!r}")
        if colon and not all(number.isascii() and number.isdecimal() for number in numbers.split(",")):
            raise SettingsError(f"{one!r} is no TOPIC, nor TOPIC:0,1")
        chosen = map(int, numbers.split(",")) if colon else sorted(known[name].partitions)
        found += [(name, number) for number in chosen]
    return found


def _delete(admin: AdminClient, options: argparse.Namespace) -> int:
    return each(admin.delete_consumer_groups(options.name, request_timeout=SECONDS), "deleted")


_ACTIONS = {"list": _list, "describe": _describe, "reset": _reset, "delete": _delete}
