"""What one node answers to its status page: from memory alone, Pulsar is asked nothing."""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from bridge import __version__
from bridge.http.status import clients, cluster, groups, settings, topics
from bridge.http.status.events import EventMemory
from bridge.http.status.query import BadQuery, Query
from bridge.http.status.sources import ObservedNode
from bridge.http.status.table import Row, Table

_HEALTH_SECONDS: Final = 15.0
"""While the page is looked at, checks that no probe has asked for are run so often: they ask Pulsar."""
_QUICK, _SLOW = 1.0, 4.0


Detail = Callable[[ObservedNode, str, int], Mapping[str, object] | None]
"""What is known of one name, a page of its partitions; None: nothing is."""


class NodeStatus:
    """Made with the node; `events` hears the log between `attach` and `detach`."""

    def __init__(self, node: ObservedNode) -> None:
        self._node = node
        self._since = time.time()
        self.events = EventMemory()
        growth = topics.Growth()
        now = self._now
        self._tables = {
            "nodes": Table(
                cluster.NODE_COLUMNS, now(lambda: cluster.nodes(node)), _QUICK, "id", ("name", "addresses", "rack")
            ),
            "brokers": Table(cluster.BROKER_COLUMNS, now(lambda: cluster.brokers(node)), _QUICK),
            "topics": Table(topics.COLUMNS, lambda: topics.rows(node, growth), _SLOW),
            "groups": Table(groups.COLUMNS, lambda: groups.rows(node), _SLOW),
            "clients": Table(
                clients.COLUMNS, now(lambda: clients.rows(node)), _QUICK, "-connections", ("name", "version")
            ),
            "events": Table(
                _EVENT_COLUMNS, now(self._event_rows), _QUICK, "-at", ("text", "fields", "explanation", "logger")
            ),
            "settings": Table(
                settings.COLUMNS, now(lambda: settings.rows(node.settings)), _SLOW, "position", ("name", "value")
            ),
        }
        self._details: dict[str, Detail] = {"topics": topics.detail, "groups": groups.detail}

    async def answer(self, query: Query) -> object:
        """What the page shows; BadQuery."""
        found: dict[str, object] = {"view": query.view, "node": self._header(), "counters": self._counters()}
        if query.view == "overview":
            found["overview"] = self._overview()
        elif query.view in self._tables:
            table = self._tables[query.view]
            found["table"] = (await table.page(query.search, query.sort, query.page))._asdict()
        else:
            raise BadQuery("there is no such view")
        if query.item:
            if query.view not in self._details:
                raise BadQuery("this view has no details")
            found["item"] = {
                "name": query.item,
                "found": self._details[query.view](self._node, query.item, query.page),
            }
        return {"workers": [], "worker": None, "answer": found}

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

    def _overview(self) -> dict[str, object]:
        node = self._node
        health = node.http.last_health(_HEALTH_SECONDS)
        known = node.cluster
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
        }

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

    def _event_rows(self) -> list[Row]:
        return [
            {**event._asdict(), "count": kind.count, "explanation": kind.explanation, "latest": number == 0}
            for kind in self.events.kinds()
            for number, event in enumerate(reversed(kind.last))
        ]


_EVENT_COLUMNS: Final = ("text", "at", "level", "logger", "count")


def _resident_bytes() -> int | None:
    """The process's memory, where the system tells it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
