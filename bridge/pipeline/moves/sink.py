"""Writes records by Spark's Kafka sink, and gives them the times they had.

The sink takes no timestamps (SPARK-50160): it leaves them to the producer, which takes the clock's. So each record
carries its time in a header that is there on the way alone: an interceptor of the producer (KIP-42) takes it off again.
Spark comes with a compiler of Java, so there is no jar to be shipped.
"""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.provenance import true_timestamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITING = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "131072",
    "kafka.compression.type": "lz4",
    # the target decides what is too large, not the client
    "kafka.max.request.size": "16777216",
}
_COLUMNS = ("topic", "partition", "key", "value", "headers")
_HEADER = "bridge.timestamp"
_INTERCEPTORS = "kafka.interceptor.classes"
_CLASS = "bridge.pipeline.RecordTimestamps"
# Kafka sends the record as it is where an interceptor raises: this one does not, whatever the record.
_JAVA = """
package bridge.pipeline;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

public class RecordTimestamps implements ProducerInterceptor {
    public ProducerRecord onSend(ProducerRecord record) {
        Header[] headers = record.headers().toArray();
        int last = headers.length - 1;
        long time = Long.parseLong(new String(headers[last].value(), StandardCharsets.US_ASCII));
        return new ProducerRecord(
            record.topic(), record.partition(), time < 0 ? null : Long.valueOf(time), record.key(), record.value(),
            Arrays.asList(headers).subList(0, last));
    }

    public void configure(Map settings) {}
    public void onAcknowledgement(RecordMetadata metadata, Exception failure) {}
    public void close() {}
}
"""


def write(frame: "DataFrame", endpoint: EndpointOptions, *, keep_times: bool = True) -> None:
    """Append records to their partitions, each task's in its order; without `keep_times` they get the time of now."""
    options = {**_WRITING, **endpoint.spark_options()}
    if keep_times:
        _load(frame.sparkSession)
        frame = _with_times(frame)
        options[_INTERCEPTORS] = ",".join(filter(None, (_CLASS, options.get(_INTERCEPTORS))))
    frame.select(*_COLUMNS).write.format("kafka").options(**options).save()


def _with_times(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    time = f.struct(f.lit(_HEADER).alias("key"), true_timestamp().cast("string").cast("binary").alias("value"))
    return frame.withColumn("headers", f.concat(f.coalesce("headers", f.array()), f.array(time)))


def _load(spark: "SparkSession") -> None:
    """Give the interceptor to all executors, once a session."""
    context: Any = spark.sparkContext  # py4j, untyped
    jar = Path(context._temp_dir) / "record-timestamps.jar"  # deleted with the session
    if jar.exists():
        return
    compiler = context._jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(context._jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_JAVA)
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr(f"{_CLASS.replace('.', '/')}.class", bytes(compiler.getBytecodes()[_CLASS]))
    context._jsc.addJar(str(jar))
