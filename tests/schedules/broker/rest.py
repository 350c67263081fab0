"""The model's admin API: `bridge.pulsar.admin.Admin` whose calls are answered by the model broker instead of HTTP.

A request takes a while to arrive, to be carried out, and to be answered; it is carried out even if no client waits
for it any more. Questions are answered from how things stood at some moment in between. Changes of partitioned topics
take several steps, which others see: the metadata of a new one is there before its partitions, that of one that goes
stays until all its partitions are gone.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from bridge.config import PulsarSettings
from bridge.pulsar.admin import NO_RESPONSE, Admin, AdminError, Conflict, NotFound
from tests.schedules.broker.namespace import Partitioned
from tests.schedules.broker.producers import Refusal
from tests.schedules.broker.server import Broker
from tests.schedules.broker.topic import Topic
from tests.schedules.loop import PROCESS

_CONNECTIONS: Final = 16
_TOPIC_POLICIES: Final = ("retention", "compactionThreshold", "persistence", "deduplicationEnabled", "maxMessageSize")
RUNTIME: Final = {
    "managedLedgerDefaultAckQuorum": "1",
    "exposingBrokerEntryMetadataToClientEnabled": "true",
}

Reply = Callable[[object], None]
"""Give the answer: what the JSON of it says, or an AdminError."""


class ModelAdmin(Admin):
    """See the module."""

    def __init__(self, settings: PulsarSettings, broker: Broker) -> None:
        super().__init__(settings)
        self._broker = broker
        self._seconds = settings.operation_timeout_seconds
        self._connections = asyncio.Semaphore(_CONNECTIONS)

    async def start(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def call(
        self, method: str, path: str, *, body: str | None = None, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        """What the broker answers."""
        async with self._connections:
            return await self._request(method, path, body, query or {})

    async def headers(self, path: str) -> Mapping[str, str]:
        """No entry of the model is a marker."""
        await self.call("GET", path)
        return {}

    async def _request(self, method: str, path: str, body: str | None, query: Mapping[str, str]) -> Any:
        broker, loop = self._broker, asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        if not await broker.network.reaches(PROCESS.get(""), self._seconds):
            raise AdminError(NO_RESPONSE, f"{method} {path}: no network")
        server = Server(broker, query)
        broker.loop.after(broker.chance.delay("rest request"), server.take, method, path, body, answer)
        try:
            async with asyncio.timeout(self._seconds):
                found = await answer
        except TimeoutError:
            raise AdminError(NO_RESPONSE, f"{method} {path}: no answer in time") from None
        if isinstance(found, AdminError):
            raise found
        return found


class Server:
    """The broker's side of one request."""

    def __init__(self, broker: Broker, query: Mapping[str, str]) -> None:
        self._broker, self._query = broker, query
        self._namespace = broker.namespace
        self._answer: asyncio.Future[object]
        self._what = ""

    def take(self, method: str, path: str, body: str | None, answer: asyncio.Future[object]) -> None:
        """The request has arrived."""
        self._answer, self._what = answer, f"{method} {path}"
        if not self._broker.up:
            self._broker.loop.arrive(_give, answer, AdminError(NO_RESPONSE, "connection refused"))
            return
        self._broker.requests[answer] = None
        self._broker.in_seconds(0.0, self._act, method, path, body)

    def _act(self, method: str, path: str, body: str | None) -> None:
        parts = [unquote(part) for part in path.split("/")]
        self._broker.trace("rest", "< %s", self._what)
        value = None if body is None else json.loads(body)
        if self._broker.is_http_busy:
            self._reply(AdminError(503, "busy"))
        elif parts[0] != "persistent":
            self._look("rest", lambda: self._of_the_cluster(parts))
        elif len(parts) == 3:
            self._look("list topics", self._namespace.stored)
        elif parts[3:] == ["partitioned"]:
            self._look("list topics", self._namespace.partitioned_names)
        else:
            name = f"persistent://{parts[1]}/{parts[2]}/{parts[3]}"
            what = parts[4] if len(parts) > 4 else "topic"
            action = _ACTIONS.get((method, what))
            if action is not None:
                action(self, name, value)
            elif what in _TOPIC_POLICIES:
                self._policy(name, what, method, value)
            else:
                raise NotImplementedError(self._what)

    # --- answering --------------------------------------------------------------------------------------------------

    def _look(self, kind: str, look: Callable[[], object]) -> None:
        self._broker.listing(kind, look, self._reply)

    def _reply(self, found: object) -> None:
        shown = found if isinstance(found, AdminError) else json.dumps(found)
        self._broker.trace("rest", "> %s: %s", self._what, str(shown)[:200].replace("persistent://", ""))
        self._broker.requests.pop(self._answer, None)
        loop = self._broker.loop
        loop.after(self._broker.chance.delay("rest answer"), loop.arrive, _give, self._answer, found)

    def _later(self, kind: str, work: Callable[..., None], *args: Any) -> None:
        self._broker.after(kind, work, *args)

    # --- partitioned topics -----------------------------------------------------------------------------------------

    def _partitions(self, name: str, _: Any) -> None:
        self._look("metadata", lambda: self._metadata(name))

    def _metadata(self, name: str) -> object:
        whole = self._namespace.partitioned.get(name)
        if whole is not None:
            return {"partitions": whole.partitions, "properties": dict(whole.properties)}
        topic = self._namespace.topics.get(name)
        return NotFound(404, "Topic not exist") if topic is None else {"partitions": 0}

    def _create_partitioned(self, name: str, value: Any) -> None:
        self._later("create metadata", self._create_metadata, name, value)

    def _create_metadata(self, name: str, value: Any) -> None:
        if self._namespace.partitions(name) is not None:
            self._reply(Conflict(409, "This topic already exists"))
            return
        partitions, properties = value["partitions"], value["properties"]
        self._namespace.partitioned[name] = Partitioned(partitions, dict(properties))
        self._broker.trace("pulsar", "= %s has %d partitions", name.rpartition("/")[2], partitions)
        self._make_partitions(name)

    def _make_partitions(self, name: str) -> None:
        missing = self._namespace.partition_names(name)
        left = [len(missing)]

        def made(partition: str) -> None:
            if name in self._namespace.partitioned:
                self._namespace.add(partition)
            left[0] -= 1
            if not left[0]:
                self._reply(None)

        for partition in missing:
            self._later("create partition", made, partition)

    def _grow(self, name: str, value: Any) -> None:
        self._later("create metadata", self._grow_now, name, int(value))

    def _grow_now(self, name: str, partitions: int) -> None:
        whole = self._namespace.partitioned.get(name)
        if whole is None:
            self._reply(NotFound(404, "Topic not found"))
        elif partitions < whole.partitions:
            self._reply(AdminError(406, "Number of new partitions is below that of existing ones"))
        else:
            whole.partitions = partitions
            self._make_partitions(name)

    def _delete_partitioned(self, name: str, _: Any) -> None:
        self._later("rest", self._delete_partitions, name)

    def _delete_partitions(self, name: str) -> None:
        if name not in self._namespace.partitioned:
            self._reply(NotFound(404, "Topic not found"))
            return
        partitions = self._namespace.partition_names(name)
        left = [len(partitions)]

        def gone(partition: str) -> None:
            self._namespace.remove(partition)
            left[0] -= 1
            if not left[0]:
                self._later("delete metadata", metadata_gone)

        def metadata_gone() -> None:
            self._namespace.partitioned.pop(name, None)
            self._broker.trace("pulsar", "= %s has no partitions any more", name.rpartition("/")[2])
            self._reply(None)

        for partition in partitions:
            self._later("delete partition", gone, partition)

    # --- topics without partitions, and properties ------------------------------------------------------------------

    def _create(self, name: str, value: Any) -> None:
        self._later("create metadata", self._create_now, name, value)

    def _create_now(self, name: str, value: Any) -> None:
        if self._namespace.partitions(name) is not None:
            self._reply(Conflict(409, "This topic already exists"))
        else:
            self._namespace.add(name, value)
            self._reply(None)

    def _delete(self, name: str, _: Any) -> None:
        self._later("delete partition", self._delete_now, name)

    def _delete_now(self, name: str) -> None:
        found = None if name in self._namespace.topics else NotFound(404, "Topic not found")
        self._namespace.remove(name)
        self._reply(found)

    def _properties(self, name: str, _: Any) -> None:
        self._look("metadata", lambda: self._properties_of(name))

    def _properties_of(self, name: str) -> object:
        whole, topic = self._namespace.partitioned.get(name), self._namespace.topics.get(name)
        if whole is not None:
            return dict(whole.properties)
        return NotFound(404, "Topic not found") if topic is None else _properties_of(topic)

    def _set_properties(self, name: str, value: Any) -> None:
        self._later("create metadata", self._set_properties_now, name, value)

    def _set_properties_now(self, name: str, value: Mapping[str, str]) -> None:
        found = self._namespace.partitioned.get(name) or self._namespace.topics.get(name)
        if found is None:
            self._reply(NotFound(404, "Topic not found"))
        else:
            found.properties.update(value)
            self._reply(None)

    def _remove_property(self, name: str, _: Any) -> None:
        self._later("create metadata", self._remove_property_now, name, self._query["key"])

    def _remove_property_now(self, name: str, key: str) -> None:
        found = self._namespace.partitioned.get(name) or self._namespace.topics.get(name)
        if found is None:
            self._reply(NotFound(404, "Topic not found"))
        else:
            found.properties.pop(key, None)
            self._reply(None)

    # --- what a topic holds -----------------------------------------------------------------------------------------

    def _with_topic(self, name: str, look: Callable[[Topic], object]) -> None:
        def loaded(topic: Topic | None, refusal: Refusal | None) -> None:
            if topic is None or refusal is not None:
                code = 404 if refusal is not None and topic is None else 503
                error = NotFound if code == 404 else AdminError
                self._reply(error(code, "Topic not found" if refusal is None else refusal.message))
            else:
                self._look("rest", lambda: look(topic))

        self._broker.take_over()
        self._broker.open(name, False, loaded)

    def _internal_stats(self, name: str, _: Any) -> None:
        self._with_topic(name, _stats_of)

    def _internal_info(self, name: str, _: Any) -> None:
        self._with_topic(name, lambda topic: {"properties": _properties_of(topic)})

    def _stats(self, name: str, _: Any) -> None:
        def look(topic: Topic) -> object:
            status = "Enabled" if topic.log.deduplicates else "Disabled"
            return {"subscriptions": {}, "deduplicationStatus": status}

        self._with_topic(name, look)

    def _entry(self, name: str, _: Any) -> None:
        self._with_topic(name, lambda topic: "")

    def _unload(self, name: str, _: Any) -> None:
        topic = self._namespace.topics.get(name)
        if topic is None:
            self._reply(NotFound(404, "Topic not found"))
        else:
            topic.unload(lambda: self._reply(None))

    def _nothing(self, name: str, _: Any) -> None:
        self._look("rest", lambda: None)

    def _policy(self, name: str, what: str, method: str, value: Any) -> None:
        found = self._namespace.partitioned.get(name) or self._namespace.topics.get(name)
        if found is None:
            self._look("rest", lambda: NotFound(404, "Topic not found"))
            return
        policies = found.policies
        if method == "GET":
            self._look("rest", lambda: policies.get(what))
        else:
            policies[what] = value
            for topic in self._namespace.topics.values():
                self._later("policies", topic.go_by_policies)
            self._look("rest", lambda: None)

    def _of_the_cluster(self, parts: list[str]) -> object:
        if parts[0] == "namespaces" and parts[3:] == ["retention"]:
            return {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        if parts == ["brokers", "configuration", "runtime"]:
            return RUNTIME | {"brokerDeduplicationEnabled": str(self._broker.deduplicates).lower()}
        if parts == ["brokers", "health"]:
            return "ok"
        return ["standalone"] if parts == ["clusters"] else None


def _stats_of(topic: Topic) -> object:
    log = topic.log
    open_one = log.ledgers[-1]
    return {
        "ledgers": [
            {
                "ledgerId": ledger.id,
                "entries": 0 if ledger is open_one else len(ledger.entries),
                "size": sum(len(entry.body) for entry in ledger.entries),
                "offloaded": False,
            }
            for ledger in log.ledgers
        ],
        "currentLedgerEntries": len(open_one.entries),
        "currentLedgerSize": sum(len(entry.body) for entry in open_one.entries),
        "lastConfirmedEntry": str(log.last),
        "entriesAddedCounter": log.end,
        "totalSize": sum(len(entry.body) for entry in log.entries),
        "cursors": {"__compaction": {"markDeletePosition": "-1:-1"}},
    }


def _properties_of(topic: Topic) -> dict[str, str]:
    """Those that were given and those that the ledgers keep: the index is among them."""
    return topic.properties | {"index": str(topic.log.written_down)}


def _give(answer: "asyncio.Future[object]", found: object) -> None:
    if not answer.done():
        answer.set_result(found)


_ACTIONS: Final[Mapping[tuple[str, str], Callable[[Server, str, Any], None]]] = {
    ("GET", "partitions"): Server._partitions,
    ("PUT", "partitions"): Server._create_partitioned,
    ("POST", "partitions"): Server._grow,
    ("DELETE", "partitions"): Server._delete_partitioned,
    ("PUT", "topic"): Server._create,
    ("DELETE", "topic"): Server._delete,
    ("GET", "properties"): Server._properties,
    ("PUT", "properties"): Server._set_properties,
    ("DELETE", "properties"): Server._remove_property,
    ("GET", "internalStats"): Server._internal_stats,
    ("GET", "internal-info"): Server._internal_info,
    ("GET", "stats"): Server._stats,
    ("GET", "ledger"): Server._entry,
    ("PUT", "unload"): Server._unload,
    ("POST", "trim"): Server._nothing,
    ("PUT", "compaction"): Server._nothing,
}
