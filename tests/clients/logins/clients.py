"""Each client's attempt to log in, produce a record and fetch it, and what it says where it is not let in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as At

from tests.clients.logins.go_client import go_driver
from tests.clients.logins.ways import RIGHT, SECONDS, Way
from tests.support.driver import Driver
from tests.support.java import KAFKA, compiled, java_command
from tests.support.kcat import KcatError, run_kcat

_OUTER_SECONDS = 120.0
_BY_CHANCE = re.compile(r"\d+ms|sasl_ssl://\S+|127\.0\.0\.1:\d+|%3\|[\d.]+\||<[^>]*>|conn=\S+|node_id=\S+|_Ready|0x\w+")


@dataclass(frozen=True)
class Told:
    """What a client said: its own name of the error, empty where it was let in."""

    error: str
    text: str
    seconds: float
    """Until it said so."""

    @property
    def lasting(self) -> str:
        """The text without addresses and times."""
        return _BY_CHANCE.sub("…", self.text)


Attempt = Callable[[Way, str], Told]


class Clients:
    """The clients by their names; those that need a process for the whole session have one at the first use."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._drivers: dict[str, Driver] = {}
        self._attempts: dict[str, Attempt] = {
            "kafka-python": kafka_python,
            "confluent-kafka": confluent,
            "aiokafka": self._aiokafka,
            "Java": self._java,
            "franz-go": self._go,
            "kcat": kcat,
        }

    def attempt(self, client: str, way: Way, topic: str) -> Told:
        """Let a client try to log in, produce and fetch."""
        return self._attempts[client](way, topic)

    def close(self) -> None:
        """End the processes."""
        for driver in self._drivers.values():
            driver.close()

    def _aiokafka(self, way: Way, topic: str) -> Told:
        if "aiokafka" not in self._drivers:
            command = [sys.executable, "-m", "tests.clients.logins.aiokafka_driver"]
            self._drivers["aiokafka"] = Driver(command, self._work / "aiokafka.log")
        return Told(**self._drivers["aiokafka"].call("log-in", **_asked(way, topic)))

    def _java(self, way: Way, topic: str) -> Told:
        if "java" not in self._drivers:
            classes = compiled(Path(__file__).parent / "java", KAFKA)
            self._drivers["java"] = Driver(java_command("Driver", classes=classes), self._work / "java.log")
        call = self._drivers["java"].call
        return Told(**call("log-in", words=way.java, topic=topic, value=_value(), seconds=SECONDS))

    def _go(self, way: Way, topic: str) -> Told:
        if "go" not in self._drivers:
            self._drivers["go"] = go_driver(self._work)
        call = self._drivers["go"].call
        return Told(**call("log-in", **way.go, Topic=topic, Value=_value(), Seconds=SECONDS))


def _value() -> str:
    return uuid4().hex


def _asked(way: Way, topic: str) -> dict[str, object]:
    """A way as clients in a process of their own are told."""
    return {
        "words": {name: value for name, value in way.python.items() if name != "ssl_context"},
        "authority": way.authority,
        "own": way.own,
        "token": way.token if way.mechanism == "OAUTHBEARER" else "",
        "topic": topic,
        "value": _value(),
    }


def kafka_python(way: Way, topic: str) -> Told:
    """kafka-python."""
    # by itself it tries for half a minute; one that is not let in has no need to
    asked = {**_asked(way, topic), "bootstrap_ms": 20_000 if way.case == RIGHT else 1000}
    command = [sys.executable, "-m", "tests.clients.logins.kafka_python"]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=_OUTER_SECONDS)
    assert done.returncode == 0, done.stderr
    return Told(**json.loads(done.stdout))


def confluent(way: Way, topic: str) -> Told:
    """librdkafka as Python has it."""
    told: list[KafkaError] = []
    words = {**way.librdkafka, "error_cb": told.append}
    if way.mechanism == "OAUTHBEARER":
        words["oauth_cb"] = lambda _: (way.token, time.time() + 60)
    value, sent = _value(), list[Any]()
    begun = time.monotonic()
    producer = Producer(words)
    producer.produce(topic, value, on_delivery=lambda error, message: sent.append(error or message))
    while not sent and not told and time.monotonic() < begun + SECONDS:
        producer.poll(0.05)
    seconds = time.monotonic() - begun
    if told or not sent:
        producer.purge()
        return Told(told[0].name(), told[0].str(), seconds) if told else Told("nothing", "", seconds)
    consumer = Consumer({**words, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([At(topic, sent[0].partition(), sent[0].offset())])
    found = consumer.poll(SECONDS)
    consumer.close()
    assert found is not None and found.error() is None and found.value() == value.encode()
    return Told("", "", time.monotonic() - begun)


def kcat(way: Way, topic: str) -> Told:
    """kcat; it makes unsigned tokens by itself."""
    words = way.librdkafka
    address = words.pop("bootstrap.servers")
    if way.mechanism == "OAUTHBEARER":
        words |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
    options = [word for name, value in words.items() for word in ("-X", f"{name}={value}")]
    value, begun = _value().encode(), time.monotonic()
    try:
        run_kcat(address, *options, "-P", "-t", topic, stdin=value)
        found, _ = run_kcat(address, *options, "-C", "-t", topic, "-o", "beginning", "-e", "-q")
    except KcatError as failed:
        seconds = time.monotonic() - begun
        said = re.search(r"% ERROR: Local: (.*?): (.*)", str(failed))
        assert said, failed
        return Told(said[1], said[2], seconds)
    assert value in found.splitlines()
    return Told("", "", time.monotonic() - begun)
