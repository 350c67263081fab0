"""Shows how many records Spark has read of a step that is under way: a step may take minutes."""

import threading
from typing import TYPE_CHECKING, Any

from pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_SECONDS = 1.0


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
    """How many records the stages that run now have read from their sources."""
    jvm: Any = spark  # py4j, untyped
    stages = jvm._jsc.sc().statusStore().activeStages()
    return sum(int(stages.apply(number).inputRecords()) for number in range(stages.size()))
