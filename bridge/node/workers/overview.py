"""What one HTTP port shows of all workers: metrics, which are ready, the cluster and status as one sees them."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial

from bridge.errors import BridgeError
from bridge.http.server import Check
from bridge.http.status import BadQuery, Query
from bridge.http.status.records import audit
from bridge.net.http_client import Response
from bridge.node.workers.http_get import get
from bridge.node.workers.merged_exposition import merge
from bridge.node.workers.worker_process import WorkerProcess
from bridge.telemetry.families import Families, Family, by_label, shown
from bridge.telemetry.instruments import Counter
from bridge.telemetry.metrics import Metrics

SCRAPE_SECONDS = 3.0
RECORDS_SECONDS = 20.0  # more than a look at records takes
READY_SECONDS = 4.5  # less than a readiness check may take
_OPEN_METRICS = "application/openmetrics-text"
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_OF_PORT = {"bridge_http_rejected", "bridge_http_unauthorized"}
_OF_ITS_TLS = {"bridge_tls_handshakes", "bridge_tls_certificate_expires_seconds"}


class WorkersMetrics(Families, prefix="bridge_worker_"):
    """What the supervisor shows of its workers."""

    up = shown(
        "gauge",
        "Whether the worker serves. 0 for more than some seconds: the log line '! worker died' says how.",
        ("worker",),
        lambda own: [((str(worker.index),), worker.ready is not None) for worker in own.workers],
    )
    restarts = shown(
        "counter",
        "Starts of a worker after its deaths. If it grows, its own last lines in the log say why.",
        ("worker",),
        lambda own: [((str(worker.index),), worker.restarts.count) for worker in own.workers],
    )
    scrapes_failed = shown(
        "counter",
        "Scrapes that a worker is left out of: it did not answer within three seconds. If it grows, it is overloaded.",
        ("worker",),
        lambda own: by_label(own.left_out),
    )

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        super().__init__()
        self.workers = workers
        self.left_out = {str(worker.index): Counter() for worker in workers}


class Overview:
    """Asks the workers when it is asked."""

    def __init__(self, workers: Sequence[WorkerProcess], metrics: Metrics) -> None:
        self._workers = workers
        self._metrics = metrics
        self._own = WorkersMetrics(workers)

    def checks(self) -> dict[str, Check]:
        """Readiness: one check a worker."""
        return {f"worker {worker.index}": partial(self._problem, worker) for worker in self._workers}

    async def metrics(self, open_metrics: bool) -> tuple[bytes, str]:
        """Those of all workers that answer in time; the others are counted."""
        accept = _OPEN_METRICS if open_metrics else "text/plain"
        found = await asyncio.gather(*(self._scrape(worker, accept) for worker in self._workers))
        texts = {
            str(worker.index): answer.body
            for worker, answer in zip(self._workers, found, strict=True)
            if answer is not None
        }
        # in a thread: thousands of lines of each worker, and an import at the first scrape
        text = await asyncio.to_thread(self._merged, texts, open_metrics)
        return text, _OPEN_METRICS_TYPE if open_metrics else _TEXT_TYPE

    async def cluster(self) -> object:
        """The view, as the first worker that answers has it."""
        for worker in self._workers:
            answer = await self._ask(worker, "/cluster", SCRAPE_SECONDS)
            if answer is not None and answer.status == 200:
                return json.loads(answer.body)
        raise BridgeError("no worker answers")

    async def status(self, query: Query) -> object:
        """What the status page shows: of the worker that is asked for, else of the first that serves; BadQuery."""
        shown = [
            {
                "index": one.index,
                "state": one.state,
                "pid": one.pid,
                "restarts": one.restarts.count,
                "ports": ""
                if one.ready is None
                else ", ".join(f"{name} {port}" for name, port in one.ready.ports.items()),
            }
            for one in self._workers
        ]
        serving = [one for one in self._workers if one.ready is not None and query.worker in (None, one.index)]
        found: dict[str, object] = {"workers": shown, "worker": query.worker, "answer": None}
        if not serving:
            return found
        looks_at_records = query.view == "records"
        if looks_at_records:  # the worker does not know who asks
            audit(query, outcome="asked for", worker=serving[0].index)
        seconds = RECORDS_SECONDS if looks_at_records else SCRAPE_SECONDS
        answer = await self._ask(serving[0], f"/api/state?{query.encoded}", seconds)
        if answer is None:
            return found
        content = json.loads(answer.body)
        if answer.status != 200:
            raise BadQuery(content.get("error", "the worker does not answer this"))
        return {**found, "worker": serving[0].index, "answer": content["answer"]}

    async def _problem(self, worker: WorkerProcess) -> str | None:
        answer = await self._ask(worker, "/readyz", READY_SECONDS)
        if answer is None:
            return worker.state if worker.ready is None else "it does not answer"
        if answer.status == 200:
            return None
        checks = json.loads(answer.body).get("checks", {})
        return "; ".join(f"{name}: {reason}" for name, reason in checks.items() if reason != "ok")

    async def _scrape(self, worker: WorkerProcess, accept: str) -> Response | None:
        answer = await self._ask(worker, "/metrics", SCRAPE_SECONDS, accept)
        if answer is None or answer.status != 200:
            self._own.left_out[str(worker.index)].inc()
            return None
        return answer

    async def _ask(self, worker: WorkerProcess, path: str, seconds: float, accept: str = "*/*") -> Response | None:
        if worker.ready is None:
            return None
        try:
            return await get(worker.ready.http, path, seconds, accept, token=worker.settings.http.token)
        except OSError:
            return None

    def _merged(self, texts: Mapping[str, bytes], open_metrics: bool) -> bytes:
        from bridge.telemetry.exposition import Exposition

        supervisor, _ = Exposition(self._of_port, process=False).render(open_metrics=open_metrics)
        own, _ = Exposition(self._own.families, process=False).render(open_metrics=open_metrics)
        return merge({"supervisor": supervisor, **texts}, own)

    def _of_port(self) -> list[Family]:
        """What the supervisor's own HTTP side counts."""
        names = _OF_PORT | _OF_ITS_TLS if self._metrics.tls.certificate_expires_seconds else _OF_PORT
        return [family for family in self._metrics.families() if family.name in names]
