"""The Spark session: one set of settings for every job, on this machine or on a cluster."""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.pipeline.errors import DataLoss, Endpoint, PipelineError, Usage
from bridge.pipeline.jars import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.app.name": "bridge-pipeline",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Int96, the default, is read by few others and cannot be compared in a filter
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # topic names and dates stay what they are when files are read back
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # one task a partition is what keeps order: nothing may merge, split or repeat tasks
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # Spark's own retry would write the records of a failed task once more; a job resumes instead
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # with it come the counts of tasks that run, which a terminal shows
    "spark.executor.heartbeatInterval": "1s",
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The user's settings for Spark. No master under spark-submit, which has its own."""

    master: str | None = None
    driver_memory: str = "2g"
    shuffle_partitions: int = 4
    jars: Path | None = None


def under_spark_submit() -> bool:
    """Whether spark-submit has started this process: then it decides master, memory and jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def create_session(options: SessionOptions) -> "SparkSession":
    """Start Spark; the first session of a process decides, as Spark has one JVM a process."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise Usage("PySpark is not installed: pip install 'pulsar-kafka-bridge[pipeline]'") from None
    settings = {**_SETTINGS, "spark.sql.shuffle.partitions": str(options.shuffle_partitions)}
    if not under_spark_submit():
        master = options.master or "local[*]"
        settings["spark.master"] = master
        settings["spark.driver.memory"] = options.driver_memory
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        _require_java()
        settings["spark.jars"] = ",".join(str(jar) for jar in connector_jars(options.jars))
        if master.startswith("local"):
            settings.update(_LOCAL)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _require_java() -> None:
    """Without one PySpark says only that its gateway has exited."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(os.path.join(home, "bin", "java") if home else "java") is None:
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise Usage(f"Spark needs Java 17 or later, and there is no java {where}")


# What the connector raises when offsets that were promised are not there.
_LOSS = ("OffsetOutOfRange", "data may have been lost", "KAFKA_DATA_LOSS", "missing offsets", "Cannot fetch offset")


def failure_of(error: Exception) -> PipelineError | None:
    """What an exception of Spark's means for the user; None when it is not Spark's."""
    module = type(error).__module__
    if not module.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    line = (causes[-1] if causes else text.splitlines()[0] if text else type(error).__name__).strip()
    if any(mark in text for mark in _LOSS):
        return DataLoss(f"records that were to be read are gone: {line}")
    return Endpoint(line)
