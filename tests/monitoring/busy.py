"""A bridge that has something to show in every panel: two workers, log-ins over TLS, groups, transactions, and what is
refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.access.password_file import line_of
from bridge.config import Settings
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.faults.processes import let_pass
from tests.security.users import credential
from tests.support.bridges import settings_for
from tests.support.certificates import Authority
from tests.support.pulsar import PulsarAddress

MECHANISM = "SCRAM-SHA-256"
PASSWORD = "of the tests"  # noqa: S105
TOPIC, GROUP, PARTITIONS = "busy", "behind", 4
HELD, PENDING = "held", "pending"
"""A topic and a group with a transaction that stays open."""
_TIME_OUT_MS = 900_000
_EVERY_SECONDS = 0.05


class Busy:
    """The bridge, its clients' settings, and the load."""

    def __init__(self, pulsar: PulsarAddress, directory: Path, guard: Guard) -> None:
        authority = Authority(directory)
        self._authority = authority.file
        self.settings = _settings(pulsar, directory, authority)
        self._process = BridgeProcess(self.settings, directory / "bridge", guard)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_and_read, name="busy")
        self._open: Producer | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Start it, and keep it busy."""
        self._process.start()
        try:
            admin = AdminClient(self.words("admin"))
            for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(HELD, 1, 1)]).values():
                created.result(30)
            self._be_refused()
            self._open = self._left_open()
            self._thread.start()
            yield
        finally:
            self._over.set()
            if self._thread.ident is not None:
                self._thread.join()
            self._process.kill()

    def words(self, user: str) -> dict[str, Any]:
        """What librdkafka is told."""
        return {
            "bootstrap.servers": self.settings.listeners[0].listen.__str__(),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self._authority,
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def _be_refused(self) -> None:
        """A user that may do nothing writes."""
        told: list[Any] = []
        producer = Producer({**self.words("guest"), "log_level": 0})
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: told.append(error and error.code()))
        producer.flush(30)
        assert told == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    def _transactional(self, name: str) -> Producer:
        words = {"transactional.id": name, "transaction.timeout.ms": _TIME_OUT_MS, "linger.ms": 0}
        producer = Producer({**self.words("admin"), **words})
        producer.init_transactions(30)
        return producer

    def _left_open(self) -> Producer:
        """A transaction with a record and an offset."""
        producer = self._transactional("left open")
        consumer = Consumer({**self.words("admin"), "group.id": PENDING})
        producer.begin_transaction()
        producer.produce(HELD, b"x")
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 1)], consumer.consumer_group_metadata(), 30)
        producer.flush(30)
        consumer.close()
        return producer

    def _send_and_read(self) -> None:
        """All is sent, of one partition nothing is committed, of the others half; a transaction each time."""
        producer = Producer({**self.words("admin"), "linger.ms": 0})
        transactional = self._transactional("committed")
        consumer = Consumer(
            {**self.words("admin"), "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe([TOPIC])
        try:
            while not self._over.is_set():
                for partition in range(PARTITIONS):
                    producer.produce(TOPIC, b"x" * 100, partition=partition)
                producer.poll(0)
                transactional.begin_transaction()
                transactional.produce(TOPIC, b"x" * 100)
                transactional.commit_transaction(30)
                for message in consumer.consume(100, timeout=_EVERY_SECONDS):
                    if message.error() is None:
                        at = TopicPartition(TOPIC, message.partition() or 0, (message.offset() or 0) // 2 + 1)
                        consumer.commit(offsets=[at], asynchronous=True)
                let_pass(_EVERY_SECONDS)
            producer.flush(10)
        finally:
            consumer.close()


def _settings(pulsar: PulsarAddress, directory: Path, authority: Authority) -> Settings:
    signed = authority.sign("server")
    passwords = directory / "passwords"
    passwords.write_text("".join(line_of(user, credential(MECHANISM, PASSWORD)) + "\n" for user in ("admin", "guest")))
    passwords.chmod(0o600)
    port = any_free()
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    return base.with_values(
        kafka={
            "listeners": f"SASL_SSL://{HOST}:{port}",
            "sasl_enabled_mechanisms": MECHANISM,
            "authorizer": "kafka",
            "super_users": "User:admin",
            "workers": 2,
            "worker_port": 0,
        },
        listener={"SASL_SSL": {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
        security={"password_file": str(passwords)},
        # a Pulsar without log-in takes any
        pulsar={"token": jwt.encode({"sub": "bridge", "exp": 4_000_000_000}, PASSWORD * 4, "HS256")},
        http={"listen": f"{HOST}:{any_free({port})}", "principals_in_metrics": True},
    )
