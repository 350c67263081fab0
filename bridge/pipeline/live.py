"""Shows how many records Spark has read of a step that is under way, for one may take minutes."""

import re
import threading
from typing import TYPE_CHECKING, Any

from bridge.pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_SECONDS = 1.0
_SCAN = re.compile(r"(Batch)?Scan ")


class LiveProgress:
    """A thread that asks Spark and tells the progress, on a terminal alone."""

    def __init__(self, spark: "SparkSession", progress: Progress) -> None:
        self._spark = spark
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def start(self) -> None:
        """Begin, where it will be seen."""
        if self._progress.terminal:
            self._thread.start()

    def stop(self) -> None:
        """End before the session does."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        from py4j.protocol import Py4JError

        while not self._over.wait(_EVERY_SECONDS):
            try:
                self._progress.running(records_read(self._spark))
            except (Py4JError, OSError):  # the session ends, and with it what there was to tell
                return


def records_read(spark: "SparkSession") -> int:
    """How many records the queries that run now have read; the counters of Spark's own page of queries."""
    session: Any = spark  # py4j, untyped
    store = session._jsparkSession.sharedState().statusStore()
    queries = store.executionsList()
    running = [query for query in map(queries.apply, range(queries.size())) if query.completionTime().isEmpty()]
    return sum(records_read_by(store, query.executionId()) for query in running)


def records_read_by(store: Any, query: int) -> int:
    """The same of one query, by its number in the store."""
    nodes, values = store.planGraph(query).allNodes(), store.executionMetrics(query)
    rows = 0
    for node in map(nodes.apply, range(nodes.size())):
        if not _SCAN.match(str(node.name())):
            continue
        metrics = node.metrics()
        for metric in map(metrics.apply, range(metrics.size())):
            if metric.name() == "number of output rows":
                shown = values.get(metric.accumulatorId())
                rows += 0 if shown.isEmpty() else int(str(shown.get()).replace(",", ""))
    return rows
