"""What the status page shows: what this node knows, and what the other nodes answer when they are asked.

`answer` is for browsers: all nodes' topics, groups, clients, events and brokers together. `own` is for other nodes:
what this one knows itself, from memory. A node that gives no answer is named, and the rest is shown.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bridge import __version__
from bridge.http.status import alerts, clients, cluster, events, groups, others, permissions, records, settings, topics
from bridge.http.status.events import EventMemory
from bridge.http.status.history import SAMPLE_SECONDS, LagHistory
from bridge.http.status.others import OtherPages, Told
from bridge.http.status.query import BadQuery, Query
from bridge.http.status.sources import ObservedNode
from bridge.http.status.table import Row, Table, select
from bridge.telemetry import log

_HEALTH_SECONDS: Final = 15.0
"""While the page is looked at, checks that no probe has asked for are run so often: they ask Pulsar."""
_QUICK, _SLOW = 1.0, 5.0
_TOPICS_SECONDS: Final = 10.0
_TOLD_SECONDS: Final = 5.0
"""For so long what another node has said is shown."""
_DETAIL_SECONDS: Final = 2.0
_MOST_TOLD: Final = 5_000
"""Rows of one view that a node tells the others."""
_MOST_ALERTS: Final = 100

_log = log.get(__name__)


class NodeStatus:
    """Made with the node; it hears the log, and looks at the numbers now and then, between `start` and `close`."""

    def __init__(self, node: ObservedNode) -> None:
        self._node = node
        self._since = time.time()
        self.events = EventMemory()
        self.api = others.api(self.own)
        """What other nodes may ask."""
        self._others = OtherPages(node)
        self._catalogue = topics.Catalogue(node, lambda: self._tables["topics"].expire())
        self._alerts = alerts.Alerts(node.metrics)
        self._history = LagHistory()
        self._lags = groups.GroupLags()
        self._records = records.RecordLook()
        self._watching: asyncio.Task[None] | None = None
        self.is_closed = False
        self._told: dict[str, list[Told]] = {}
        """What the others have said last, by view: who is silent is among them."""
        growth = topics.Growth()
        now = self._now
        self._own = {
            "topics": Table(
                topics.OWN_COLUMNS, lambda: topics.own_rows(node, growth, self._lags), _TOPICS_SECONDS,
                prepare=self._look_at_groups,
            ),
            "groups": Table(
                groups.COLUMNS, lambda: groups.own_rows(node, self._history, self._lags), _SLOW, "-lag"
            ),
            "clients": Table(clients.COLUMNS, now(lambda: clients.own_rows(node)), _QUICK, "-connections"),
            "events": Table(events.COLUMNS, now(self.events.rows), _QUICK, "-at"),
            "brokers": Table(cluster.BROKER_COLUMNS, now(lambda: cluster.own_brokers(node)), _QUICK),
        }  # fmt: skip
        self._tables = {
            "nodes": Table(
                cluster.NODE_COLUMNS, self._nodes, _QUICK, "id", ("name", "addresses", "rack"),
                prepare=lambda: self._ask("overview"),
            ),
            "brokers": self._of_all("brokers", cluster.BROKER_COLUMNS, _QUICK, searched=("address",)),
            "topics": Table(
                topics.COLUMNS, self._topics, _TOPICS_SECONDS, prepare=self._prepare_topics,
                finish=self._catalogue.finish,
            ),
            "groups": self._of_all("groups", groups.COLUMNS, _SLOW, "-lag"),
            "clients": Table(
                clients.COLUMNS, self._clients, _QUICK, "-connections", ("name", "version"),
                prepare=lambda: self._ask("clients"),
            ),
            "events": Table(
                events.COLUMNS, self._events, _QUICK, "-at", ("text", "fields", "explanation", "logger"),
                prepare=lambda: self._ask("events"),
            ),
            "acls": Table(
                permissions.ACL_COLUMNS, now(lambda: permissions.acls(node)), _SLOW, "principal",
                ("principal", "resource", "operation", "host"),
            ),
            "users": Table(permissions.USER_COLUMNS, now(lambda: permissions.users(node)), _SLOW),
            "quotas": Table(permissions.QUOTA_COLUMNS, now(lambda: permissions.quotas(node)), _SLOW, "entity"),
            "settings": Table(
                settings.COLUMNS, now(lambda: settings.rows(node.settings)), _SLOW, "position", ("name", "value")
            ),
        }  # fmt: skip
        self._details: dict[str, Callable[[Query], Awaitable[tuple[object, Sequence[Told]]]]] = {
            "topics": self._topic, "groups": self._group, "events": self._event,
        }  # fmt: skip

    def start(self) -> None:
        """Hear the log, and look at the numbers from now on."""
        self.events.attach()
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="status page looks")

    def close(self) -> None:
        """Look no more, ask nothing, and answer nobody: before what would be asked is closed."""
        self.is_closed = True
        self.events.detach()
        self._others.close()
        self._catalogue.close()
        for table in (*self._own.values(), *self._tables.values()):
            table.close()
        if self._watching is not None:
            self._watching.cancel()

    async def answer(self, query: Query) -> object:
        """What the page shows; BadQuery."""
        self._check_open()
        found: dict[str, object] = {"view": query.view, "node": self._header(), "counters": self._counters()}
        told: Sequence[Told] = ()
        if query.view == "overview":
            found["overview"] = await self._overview()
        elif query.view == "records":
            found["item"] = {"name": query.item, "found": await self._look_at_records(query)}
        elif query.view not in self._tables:
            raise BadQuery("there is no such view")
        elif not query.item:
            table = self._tables[query.view]
            found["table"] = (await table.page(query.search, query.sort, query.page))._asdict()
        elif query.view in self._details:
            item, told = await self._details[query.view](query)
            found["item"] = {"name": query.item, "found": item}
        else:
            raise BadQuery("this view has no details")
        told = told if query.item else self._told.get(query.view, ())
        found["silent"] = [{"node": one.node, "name": one.name, "reason": one.reason} for one in told if one.reason]
        return {"workers": [], "worker": None, "answer": found}

    async def own(self, query: Query) -> object:
        """What this node tells another one; BadQuery."""
        self._check_open()
        if query.item:
            return {"item": await self._own_detail(query)}
        if query.view == "overview":
            return {**self._header(), **self._standing()}
        if query.view not in self._own:
            raise BadQuery("there is no such view")
        return {"rows": _short(await self._told_rows(query.view))}

    def _check_open(self) -> None:
        if self.is_closed:
            raise BadQuery("this node stops")

    # ---- what this node knows ----------------------------------------------------------------------------------------

    async def _told_rows(self, view: str) -> list[Row]:
        """Those that other nodes are told."""
        table = self._own[view]
        rows = await table.current()
        if len(rows) <= _MOST_TOLD:
            return rows
        return (await asyncio.to_thread(select, rows, (), "", table.order))[:_MOST_TOLD]

    async def _own_detail(self, query: Query) -> object:
        if query.view == "groups":
            return groups.detail(self._node, query.item, query.page, self._history)
        if query.view == "topics":
            await self._look_at_groups()
            return topics.own_detail(self._node, query.item, self._lags)
        if query.view == "events":
            return self.events.last(query.item)
        raise BadQuery("this view has no details")

    async def _look_at_groups(self) -> None:
        """Have known which groups read which topics."""
        await self._own["groups"].current()

    def _standing(self) -> dict[str, object]:
        """What the others show of this node."""
        firing = self._alerts.firing()
        return {
            "connections": self._node.metrics.connections.value,
            "firing": len(firing),
            "alerts": [one._asdict() for one in firing[:_MOST_ALERTS]],
        }

    async def _watch(self) -> None:
        """Look at the numbers, for the alerts and for the lags of the last hour."""
        sampled = float("-inf")
        while True:
            await asyncio.sleep(alerts.LOOK_SECONDS)
            try:
                self._alerts.look()
                if time.monotonic() - sampled >= SAMPLE_SECONDS - 1:
                    sampled = time.monotonic()
                    self._history.add(time.time(), self._node.metrics.groups.lags)
            except Exception:  # noqa: BLE001 - what the page shows must not end it for good
                _log.exception("! numbers of the status page not taken")

    # ---- what all nodes know -----------------------------------------------------------------------------------------

    def _of_all(
        self, view: str, columns: tuple[str, ...], seconds: float, order: str = "", searched: tuple[str, ...] = ()
    ) -> Table:
        """A table of the rows of all nodes, each with the node that it is of."""

        async def rows() -> list[Row]:
            return [{**row, "node": node} for node, of in await self._all_rows(view) for row in of]

        return Table(columns, rows, seconds, order, searched, prepare=lambda: self._ask(view))

    async def _ask(self, view: str) -> None:
        """Ask the other nodes for their part of a view."""
        self._told[view] = await self._others.ask(Query(view=view), _TOLD_SECONDS)

    async def _all_rows(self, view: str) -> list[tuple[int, Iterable[Mapping[str, Any]]]]:
        """The rows of each node that has told them."""
        own = self._node.cluster.node_id if self._node.cluster is not None else 0
        told = [(one.node, one.content.get("rows", ())) for one in self._told.get(view, ()) if one.content is not None]
        return [(own, await self._own[view].current()), *told]

    async def _nodes(self) -> list[Row]:
        told = {one.node: one for one in self._told.get("overview", ())}
        own = Told(-1, "", {**self._header(), **self._standing()})
        return [
            {**row, **_health(told.get(int(row["id"] or 0), own if row["here"] else None))}
            for row in cluster.nodes(self._node)
        ]

    async def _prepare_topics(self) -> None:
        await self._catalogue.refresh()
        await self._ask("topics")

    async def _topics(self) -> list[Row]:
        return await self._catalogue.rows([rows for _, rows in await self._all_rows("topics")])

    async def _clients(self) -> list[Row]:
        return clients.together(row for _, rows in await self._all_rows("clients") for row in rows)

    async def _events(self) -> list[Row]:
        return events.folded((node, row) for node, rows in await self._all_rows("events") for row in rows)

    # ---- details -----------------------------------------------------------------------------------------------------

    async def _topic(self, query: Query) -> tuple[object, Sequence[Told]]:
        asked = Query(view="topics", item=query.item)
        told = await self._others.ask(asked, _DETAIL_SECONDS)
        await self._catalogue.refresh()
        known = [await self._own_detail(asked), *(one.content.get("item") for one in told if one.content is not None)]
        found = self._catalogue.detail(query.item, query.page, [one for one in known if isinstance(one, dict)])
        return None if found is None else {**found, "shows_records": self._node.settings.http.show_records}, told

    async def _group(self, query: Query) -> tuple[object, Sequence[Told]]:
        asked = Query(view="groups", item=query.item, page=query.page)
        found = await self._own_detail(asked)
        if found is not None:
            return found, ()
        node = next((row["node"] for row in await self._tables["groups"].current() if row["name"] == query.item), None)
        told = None if node is None else await self._others.ask_one(int(node), asked, _DETAIL_SECONDS)
        if told is None:
            return None, self._told.get("groups", ())
        return None if told.content is None else told.content.get("item"), (told,)

    async def _event(self, query: Query) -> tuple[object, Sequence[Told]]:
        asked = Query(view="events", item=query.item)
        own = self._node.cluster.node_id if self._node.cluster is not None else 0
        others_ = await self._others.ask(asked, _DETAIL_SECONDS)
        told = [(own, await self._own_detail(asked))]
        told += [(one.node, one.content.get("item")) for one in others_ if one.content is not None]
        return events.of_kind(query.item, told), others_

    async def _look_at_records(self, query: Query) -> object:
        if not self._node.settings.http.show_records:
            raise BadQuery("records are not shown here: http.show_records is false")
        services, topic = topics.find(self._node, query.item)
        if services is None:
            raise BadQuery("there is no such topic")
        return await self._records.answer(services, topic, query)

    @staticmethod
    def _now(make: Callable[[], list[Row]]) -> Callable[[], Awaitable[list[Row]]]:
        async def made() -> list[Row]:
            return make()

        return made

    def _header(self) -> dict[str, object]:
        """What every view shows."""
        node = self._node
        health, draining = node.http.last_health(_HEALTH_SECONDS), node.http.draining
        known = node.cluster
        view = known.view if known is not None else None
        member = view.members.get(known.node_id) if view is not None and known is not None else None
        return {
            "name": member.name if member is not None else "",
            "id": known.node_id if known is not None else -1,
            "version": __version__,
            "now": time.time(),
            "since": self._since,
            "ready": None if not health.reasons else not draining and not any(health.reasons.values()),
            "ready_since": health.since,
            "draining": draining,
        }

    async def _overview(self) -> dict[str, object]:
        node = self._node
        health = node.http.last_health(_HEALTH_SECONDS)
        known = node.cluster
        await self._ask("overview")
        await self._catalogue.refresh(patience=0.0)
        found = await self._tables["groups"].current()
        worst = groups.worst(found)
        return {
            "codec": node.metrics.codec,
            "namespace": node.settings.pulsar.full_namespace,
            "cluster": known.cluster_id if known is not None else "",
            "nodes": len(known.view.members) if known is not None else 0,
            "is_controller": known is not None and known.view.controller == known.node_id >= 0,
            "pulsar": node.client.server_version,
            "checked": health.age,
            "slow_topics": node.metrics.pulsar.slow_topics,
            "checks": [{"check": name, "reason": reason} for name, reason in health.reasons.items()],
            "topics": self._catalogue.count,
            "groups": len(found),
            "worst": None if worst is None else {"group": worst["name"], "lag": worst["lag"]},
            **self._all_alerts(),
        }

    def _all_alerts(self) -> dict[str, object]:
        """How many fire, on whichever node, and the first of them: the critical ones."""
        own = self._node.cluster.node_id if self._node.cluster is not None else 0
        of_all: list[tuple[int, Mapping[str, Any]]] = [(own, self._standing())]
        of_all += [(one.node, one.content) for one in self._told["overview"] if one.content is not None]
        found = [{**one, "node": node} for node, of in of_all for one in of["alerts"]]
        found.sort(key=lambda one: (one["severity"] != "critical", one["since"]))
        return {"firing": sum(of["firing"] for _, of in of_all), "alerts": found[:_MOST_ALERTS]}

    def _counters(self) -> dict[str, float | None]:
        """Numbers that the page makes its charts of: those that only grow it turns into rates."""
        metrics = self._node.metrics
        apis = metrics.all_apis()
        receipts = metrics.pulsar.receipt_seconds
        return {
            "requests": sum(api.requests.value for api in apis),
            "errors": sum(sum(api.errors.values()) for api in apis),
            "bytes_in": sum(api.bytes_in.value for api in apis),
            "bytes_out": sum(api.bytes_out.value for api in apis),
            "receipts": sum(receipts.counts),
            "receipt_seconds": receipts.total,
            "connections": metrics.connections.value,
            "paused": metrics.paused_connections.value,
            "request_bytes": metrics.in_flight_bytes.value,
            "answer_bytes": metrics.waiting_answer_bytes.value,
            "cache_bytes": metrics.storage.cache_bytes.value,
            "partitions": metrics.storage.open_partitions.value,
            "stalled": metrics.pulsar.stalled_seconds.value,
            "slow_topics": metrics.pulsar.unacknowledged_topics.value,
            "memory": _resident_bytes(),
        }


def _short(rows: Iterable[Row]) -> list[Row]:
    """Rows without what is not known."""
    return [{column: value for column, value in row.items() if value is not None} for row in rows]


def _health(told: Told | None) -> Row:
    """How a node is, in a word."""
    if told is None or told.content is None:
        return {"health": "no answer", "reason": "" if told is None else told.reason}
    content = told.content
    ready = "Stopping" if content["draining"] else _HEALTH[content["ready"]]
    return {
        "health": ready, "started": content["since"], "connections": content["connections"],
        "alerts": content["firing"], "reason": "",
    }  # fmt: skip


_HEALTH: Final = {True: "Ready", False: "Not ready", None: "Being checked"}


def _resident_bytes() -> int | None:
    """The process's memory, where the system tells it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
