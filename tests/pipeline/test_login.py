"""A job gets past TLS and a password with a file of Kafka's own properties, and never shows the password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from bridge.pipeline.frames import archive_frame
from tests.pipeline.running import run_job
from tests.support.kafka_broker import KafkaBroker, NewKafka
from tests.support.programs import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER, PASSWORD = "reader", "a-secret-of-its-own"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RECORDS = 100


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and the certificate that it has signed itself, in one PEM file."""
    made = tmp_path_factory.mktemp("certificate")
    key, cert = made / "key.pem", made / "cert.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([require("openssl"), *words], check=True, capture_output=True)
    both = made / "both.pem"
    both.write_text(key.read_text() + cert.read_text(), encoding="ascii")
    return both


@pytest.fixture(scope="module")
def kafka(certificate: Path, new_kafka: NewKafka) -> Iterator[KafkaBroker]:
    jaas = f'{MODULE} username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
    }
    broker = new_kafka(protocol="SASL_SSL", settings=settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def properties(directory: Path, certificate: Path, password: str) -> Path:
    """As Kafka's own tools take them."""
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={MODULE} username="{USER}" password="{password}";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificate}",
    ]
    path = directory / "client.properties"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_job_gets_in_and_keeps_the_password(
    spark: SparkSession, kafka: KafkaBroker, certificate: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka.kafka,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(certificate),
        }
    )
    for number in range(RECORDS):
        producer.produce("locked", b"%d" % number)
    assert producer.flush(30) == 0

    out, report = tmp_path / "a", tmp_path / "report.json"
    words = ["archive", "--bootstrap", kafka.kafka, "--topics", "locked", "--out", str(out), "--report", str(report)]
    conf = properties(tmp_path, certificate, PASSWORD)
    done = run_job(spark, *words, "--kafka-conf", str(conf))
    assert (done.code, done.report["records"]) == (0, RECORDS)
    assert archive_frame(spark, str(out)).count() == RECORDS

    wrong = run_job(None, *words, "--kafka-conf", str(properties(tmp_path, certificate, "guessed")))
    assert wrong.code == 4 and wrong.error.count("\n") == 0
    said = capfd.readouterr()
    told = [*done.notes, *wrong.notes, wrong.error, report.read_text(), said.out, said.err]
    told += [path.read_text(errors="replace") for path in (out / "_bridge").iterdir() if path.is_file()]
    assert not [text for text in told if PASSWORD in text or "guessed" in text]
