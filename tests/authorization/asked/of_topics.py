"""Topics and configs: asked for, listed, created, enlarged, deleted, altered."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
    metadata,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import MISSING, NOWHERE, TOPICS, World
from tests.clients.refusals import configs, topics

ALL = (*TOPICS, *MISSING)
VICTIMS = ("mine-victim", "other-victim")
METADATA, CREATE, GROW, DELETE = metadata.API, create_topics.API, create_partitions.API, delete_topics.API
DESCRIBE, REPLACE, CHANGE = describe_configs.API, alter_configs.API, incremental_alter_configs.API
PAGE = describe_topic_partitions.API


def _victims(world: World) -> list[str]:
    return [world.topic_to_delete(name) for name in VICTIMS]


def _with_operations(**fields: Any) -> Any:
    values = {"topics": None, "allow_auto_topic_creation": False, **fields}
    return metadata.Request(
        include_cluster_authorized_operations=True, include_topic_authorized_operations=True, **values
    )


def _with_topic_operations(world: World) -> Any:
    request = topics.ask_for(*ALL)
    request.include_topic_authorized_operations = True
    return request


def _created(world: World, *, validate_only: bool = False, partitions: int = 1) -> Any:
    names = [world.new("mine-new"), world.new("other-new"), *TOPICS]
    return topics.create(*names, validate_only=validate_only, num_partitions=partitions)


def _automatic(world: World) -> Any:
    return topics.ask_for(world.new("mine-auto"), world.new("other-auto"), create=True)


def _of_resources(make: Any, *values: Any) -> Any:
    """A request about configs of topics, a group, client metrics and the broker."""
    request, *others = [
        make(kind, name, *values)
        for kind, names in ((configs.TOPIC, ALL), (configs.GROUP, ("mine-group", "other-group")))
        for name in names
    ]
    for one in others:
        request.resources += one.resources
    return request


def _of_broker(make: Any, world: World, kind: int, *values: Any) -> Any:
    return make(kind, str(world.node), *values)


def _validated(request: Any) -> Any:
    request.validate_only = True
    return request


RETENTION = ("retention.ms", "3600000")
SET_RETENTION = ("retention.ms", 0, "3600000")
SET_SESSION = ("consumer.session.timeout.ms", 0, "50000")

ROWS = [
    Row(METADATA, "by name", lambda w: topics.ask_for(*ALL), since=4),
    # before v4 a topic that is not there is created
    Row(METADATA, "by name", lambda w: topics.ask_for(*TOPICS), version=3, since=0),
    Row(METADATA, "by name, with operations", _with_topic_operations, since=8),
    Row(METADATA, "by id", lambda w: topics.ask_for(ids=[*(w.ids[name] for name in TOPICS), NOWHERE]), since=12),
    Row(METADATA, "all", lambda w: metadata.Request(topics=None), since=1),
    Row(METADATA, "all", lambda w: metadata.Request(topics=[]), version=0),
    Row(METADATA, "all, with operations", lambda w: _with_operations(), version=10, since=8),
    Row(METADATA, "none", lambda w: metadata.Request(topics=[])),
    Row(METADATA, "to be created", _automatic, slow=True),
    Row(METADATA, "to be created", _automatic, version=3, slow=True),
    Row(CREATE, "new and not new", _created, slow=True),
    Row(CREATE, "validated alone", lambda w: _created(w, validate_only=True), since=2),
    Row(CREATE, "named twice", lambda w: topics.create("mine-twice", "mine-twice", "other-twice", "other-twice")),
    Row(GROW, "validated alone", lambda w: topics.grow(*((name, 3) for name in ALL), validate_only=True), since=0),
    Row(GROW, "fewer", lambda w: topics.grow(*((name, 1) for name in ALL))),
    Row(DELETE, "by name", lambda w: topics.delete(*_victims(w), *MISSING), deletes=VICTIMS, slow=True),
    Row(DELETE, "by name", lambda w: delete_topics.Request(topic_names=[*_victims(w), *MISSING], timeout_ms=30_000),
        version=5, deletes=VICTIMS, slow=True),
    Row(DELETE, "by id", lambda w: topics.delete(ids=[NOWHERE, *(w.ids[w.fresh[name]] for name in _victims(w))]),
        deletes=VICTIMS, slow=True),
    Row(PAGE, "by name", lambda w: topics.page(*ALL)),
    Row(PAGE, "all", lambda w: topics.page(limit=2000)),
    Row(DESCRIBE, "of topics and groups", lambda w: _of_resources(configs.describe), since=1),
    Row(DESCRIBE, "of the broker", lambda w: _of_broker(configs.describe, w, configs.BROKER)),
    Row(DESCRIBE, "of loggers", lambda w: _of_broker(configs.describe, w, configs.LOGGER)),
    Row(DESCRIBE, "of client metrics", lambda w: configs.describe(configs.METRICS, "mine-metrics")),
    Row(REPLACE, "of topics", lambda w: _validated(_of_topics(configs.replace, RETENTION)), since=0),
    Row(REPLACE, "of the broker", lambda w: _validated(_of_broker(configs.replace, w, configs.BROKER))),
    Row(CHANGE, "of topics", lambda w: _validated(_of_topics(configs.change, SET_RETENTION)), since=0),
    Row(CHANGE, "of groups", lambda w: _validated(_of_groups(SET_SESSION))),
    Row(CHANGE, "of the broker", lambda w: _validated(_of_broker(configs.change, w, configs.BROKER))),
    Row(CHANGE, "of loggers", lambda w: _validated(_of_broker(configs.change, w, configs.LOGGER))),
    Row(CHANGE, "of client metrics", lambda w: _validated(configs.change(configs.METRICS, "mine-metrics"))),
    Row(list_config_resources.API, "all", lambda w: list_config_resources.Request(resource_types=[])),
    Row(list_config_resources.API, "client metrics", lambda w: list_config_resources.Request(), version=0),
]  # fmt: skip


def _of_topics(make: Any, config: Any) -> Any:
    request = make(configs.TOPIC, ALL[0], config)
    for name in ALL[1:]:
        request.resources += make(configs.TOPIC, name, config).resources
    return request


def _of_groups(config: Any) -> Any:
    request = configs.change(configs.GROUP, "mine-group", config)
    request.resources += configs.change(configs.GROUP, "other-group", config).resources
    return request
