"""Entry filters of the broker: what they hide from readers, Kafka's consumers do not get."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pulsar as native
import pytest

from bridge.kafka.error_codes import ErrorCode
from tests.contract.log import Log
from tests.policies.conftest import started
from tests.policies.site import Site
from tests.support import pulsar_versions
from tests.support.programs import require
from tests.support.pulsar import NewPulsar, PulsarAddress

SOURCE = Path(__file__).parent / "filter" / "HideFilter.java"
NAME = "hide"


def archive(directory: Path) -> Path:
    """The filter as a broker loads it."""
    classes = directory / "classes"
    libraries = pulsar_versions.chosen_jars()[0].parent
    subprocess.run([require("javac"), "-d", classes, "-cp", f"{libraries}/*", SOURCE], check=True)
    made = directory / f"{NAME}.nar"
    with zipfile.ZipFile(made, "w") as nar:
        nar.writestr("META-INF/services/entry_filter.yml", f"name: {NAME}\nentryFilterClass: {SOURCE.stem}\n")
        nar.write(classes / f"{SOURCE.stem}.class", f"{SOURCE.stem}.class")
    return directory


@pytest.fixture
def filtering(new_pulsar: NewPulsar, tmp_path: Path) -> Iterator[PulsarAddress]:
    filters = {"entryFilterNames": NAME, "entryFiltersDirectory": str(archive(tmp_path))}
    broker = new_pulsar({**filters, "narExtractionDirectory": str(tmp_path)})
    broker.start()
    yield broker
    broker.kill()


def test_what_an_entry_filter_hides_is_a_gap(filtering: PulsarAddress) -> None:
    with started(filtering) as site, Log(site.bridge.kafka, topic := site.topic()) as log:
        hide = native_producer(site, filtering, topic)
        assert log.write([b"a"]) == [0]
        hide.send(b"hidden", properties={"hide": ""})
        assert log.write([b"b", b"c"]) == [2, 3]
        assert [(one.offset(), one.value()) for one in log.read(0)] == [(0, b"a"), (2, b"b"), (3, b"c")]
        assert site.bound(topic) == (ErrorCode.NONE, 4)


def test_the_end_is_known_though_a_filter_hides_the_last_entries(filtering: PulsarAddress) -> None:
    """To a node that was there, and to one that comes later; and both are written to."""
    with started(filtering) as site:
        topic = site.topic()
        hide = native_producer(site, filtering, topic)
        assert site.produce(topic, b"a") == (ErrorCode.NONE, "0")
        assert site.bound(topic) == (ErrorCode.NONE, 1)
        for _ in range(3):
            hide.send(b"hidden", properties={"hide": ""})
        assert site.bound(topic) == (ErrorCode.NONE, 1)
        assert site.bound(topic, -2) == (ErrorCode.NONE, 0)
        assert site.has_records(topic)
        assert list(map(partial(site.fetch, topic), (1, 4, 5))) == [
            (ErrorCode.NONE, 0), (ErrorCode.NONE, 0), (ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        ]  # fmt: skip
        site.restart()
        assert site.bound(topic) == (ErrorCode.NONE, 1)
        assert site.has_records(topic, 0)
        assert site.fetch(topic, 4) == (ErrorCode.NONE, 0)
        assert site.produce(topic, b"b") == (ErrorCode.NONE, "4")
        assert site.bound(topic) == (ErrorCode.NONE, 5)
        hide.send(b"hidden", properties={"hide": ""})
        site.restart()
        assert site.produce(topic, b"c") == (ErrorCode.NONE, "6")
        assert site.bound(topic) == (ErrorCode.NONE, 7)
        assert site.has_records(topic, 5)


def native_producer(site: Site, broker: PulsarAddress, topic: str) -> native.Producer:
    client = native.Client(broker.service_url)
    return client.create_producer(f"persistent://{site.namespace}/{topic}-partition-0")
