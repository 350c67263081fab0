"""What a job is given to work with."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING

from bridge.pipeline.live import LiveProgress
from bridge.pipeline.progress import Progress
from bridge.pipeline.report import Report
from bridge.pipeline.session import SessionOptions, create_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Context:
    """The Spark session (started when first asked for), where progress goes, and the report."""

    def __init__(
        self, options: SessionOptions, progress: Progress, report: Report, spark: "SparkSession | None" = None
    ) -> None:
        self._options = options
        self._given = spark
        self.progress = progress
        self.report = report
        self.interrupted = False
        self._busy = False
        self._catching = False
        self._live: LiveProgress | None = None

    def catch_signals(self) -> None:
        """Let SIGTERM end the job as Ctrl-C does, and remember that it was one of them."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._interrupt)
        self._catching = True

    def go_on(self) -> None:
        """Raise KeyboardInterrupt where a library has caught the one that a signal raised in it."""
        if self.interrupted:
            raise KeyboardInterrupt

    @contextmanager
    def to_its_end(self) -> Iterator[None]:
        """Let the first signal wait for the end of what is done in here; the second one interrupts it."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def rest(self, seconds: float) -> bool:
        """Wait so long, or until a signal comes; whether one has, or had before. The next one counts as the first."""
        before = self._busy
        try:
            self.go_on()
            self._busy = False
            time.sleep(seconds)
            self._busy = before
        except KeyboardInterrupt:
            self._busy, self.interrupted = before, False
            return True
        return False

    @cached_property
    def spark(self) -> "SparkSession":
        """The session; a plan that is refused or only shown never starts one."""
        if self._given is not None:
            return self._given
        self.progress.note("starting Spark")
        session = create_session(self._options)
        if self._catching:  # PySpark has put a handler of its own in its place
            self.catch_signals()
        self._live = LiveProgress(session, self.progress)
        self._live.start()
        return session

    def close(self) -> None:
        """Stop the session if it was started here."""
        if self._given is None and "spark" in self.__dict__:
            if self._live is not None:
                self._live.stop()
            # the interruption was already reported in one line
            self.spark.sparkContext.setLogLevel("OFF")
            self.spark.stop()

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        again, self.interrupted = self.interrupted, True
        if again or not self._busy:
            raise KeyboardInterrupt
