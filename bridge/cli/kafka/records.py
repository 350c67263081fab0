"""`bridge produce`: a record of each line; `bridge consume`: a line of each record."""

import argparse
import base64
import json
import os
import sys
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from bridge.cli.kafka.endpoint import SECONDS, Endpoint, KafkaFailed
from bridge.cli.kafka.groups import milliseconds
from bridge.cli.kafka.options import name_and_value
from bridge.cli.table import printable

_POLL_SECONDS: Final = 0.2


def produce(options: argparse.Namespace) -> int:
    """Write a record of each line of standard input; the exit code: 1 where one was not stored."""
    endpoint = Endpoint(options)
    headers = [(name, value.encode()) for name, value in map(name_and_value, options.header)]
    producer = Producer(endpoint.settings(enable_idempotence=True, linger_ms=5))
    failed: list[str] = []
    stored = 0

    def told(error: KafkaError | None, message: Message) -> None:
        nonlocal stored
        if error is not None:
            failed.append(endpoint.reason(error))
            return
        stored += 1
        if not options.quiet:
            print(f"partition {message.partition()}, offset {message.offset()}")

    where = {} if options.partition is None else {"partition": options.partition}
    try:
        with endpoint.told():
            for line in sys.stdin.buffer:
                key, value = _split(line.removesuffix(b"\n"), options)
                _send(producer, options.topic, value, key, headers=headers, on_delivery=told, **where)
                producer.poll(0)
                if failed:
                    break
    except KafkaFailed as error:
        failed.append(str(error))
    finally:
        left = producer.flush(SECONDS)  # what was read is stored, whatever came behind it
    if failed:
        raise KafkaFailed(f"{stored} records are stored, then: {failed[0]}")
    if left:
        raise KafkaFailed(f"{stored} records are stored, of {left} there is no answer within {SECONDS:.0f} s")
    return 0


def _send(producer: Producer, topic: str, value: bytes, key: bytes | None, **more: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, key, **more)
            return
        except BufferError:  # its queue is full
            producer.poll(_POLL_SECONDS)


def _split(line: bytes, options: argparse.Namespace) -> tuple[bytes | None, bytes]:
    if options.key_separator:
        key, separator, value = line.partition(options.key_separator.encode())
        if not separator:
            raise KafkaFailed(f"a line has no {options.key_separator!r}, behind which its value would be")
        return key, value
    return (None if options.key is None else options.key.encode()), line


def consume(options: argparse.Namespace) -> int:
    """Print records as they come, until there are `--count`, the end with `--until-end`, or Ctrl-C; the exit code."""
    endpoint = Endpoint(options)
    settings = endpoint.settings(
        group_id=options.group or "bridge-cli",
        enable_auto_commit=bool(options.group),
        enable_auto_offset_store=False,
        auto_offset_reset="earliest",
        enable_partition_eof=True,
        topic_metadata_refresh_interval_ms=5000,
    )
    consumer = Consumer(settings)
    try:
        with endpoint.told():
            if options.group:
                consumer.subscribe([options.topic])
            else:
                consumer.assign(_start(consumer, options))
            _print(consumer, options)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        consumer.close()
    return 0


def _start(consumer: Consumer, options: argparse.Namespace) -> list[TopicPartition]:
    topic = consumer.list_topics(options.topic, SECONDS).topics[options.topic]
    if topic.error is not None:
        raise KafkaException(topic.error)
    numbers = sorted(topic.partitions) if options.partition is None else [options.partition]
    if options.start in ("start", "end"):
        at = OFFSET_BEGINNING if options.start == "start" else OFFSET_END
        return [TopicPartition(options.topic, number, at) for number in numbers]
    if options.start.isascii() and options.start.isdecimal():
        return [TopicPartition(options.topic, number, int(options.start)) for number in numbers]
    times = [TopicPartition(options.topic, number, milliseconds(options.start)) for number in numbers]
    return list(consumer.offsets_for_times(times, SECONDS))


def _print(consumer: Consumer, options: argparse.Namespace) -> None:
    count, ended = 0, set[int]()
    while options.count is None or count < options.count:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None:
            print(_line(message, as_json=options.json), flush=True)
            count += 1
            ended.discard(message.partition())
            if options.group:
                consumer.store_offsets(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        else:
            ended.add(message.partition())
            if options.until_end and ended >= {one.partition for one in consumer.assignment()}:
                break


def _line(message: Message, *, as_json: bool) -> str:
    if not as_json:
        text = (message.value() or b"").decode(errors="replace")
        return printable(text) if sys.stdout.isatty() else text
    kind, timestamp = message.timestamp()
    return json.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
            "key": _shown(message.key()),
            "value": _shown(message.value()),
            "headers": [[name, _shown(value)] for name, value in message.headers() or []],
        }
    )


def _shown(data: bytes | str | None) -> Any:
    """A text; what is none as an object with its base64."""
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
