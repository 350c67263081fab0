"""What a job is given to work with."""

from functools import cached_property
from typing import TYPE_CHECKING

from pipeline.progress import Progress
from pipeline.report import Report
from pipeline.session import SessionOptions, create_session

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

    @cached_property
    def spark(self) -> "SparkSession":
        """The session; a plan that is refused or only shown never starts one."""
        if self._given is not None:
            return self._given
        self.progress.note("starting Spark")
        return create_session(self._options)

    def close(self) -> None:
        """Stop the session if it was started here."""
        if self._given is None and "spark" in self.__dict__:
            # what was interrupted has been told in one line already
            self.spark.sparkContext.setLogLevel("OFF")
            self.spark.stop()
