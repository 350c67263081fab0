"""A look at records: off unless it is set, bounded, told to the audit log, and true to what clients have written."""

from __future__ import annotations

import json
import logging
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pulsar as native
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from bridge.codec import Rebuild, Record, build_batch
from bridge.config import HttpSettings
from bridge.errors import CorruptEntry, SettingsError
from bridge.http.status import records
from bridge.http.status.query import BadQuery, Query
from bridge.http.status.records import MOST_RECORDS, indented, shown, wanted_key
from bridge.storage.entries import each_record
from tests.support.bridges import BridgeThread, Overrides, settings_for
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress

TOKEN = "s3cret"  # noqa: S105
BINARY = bytes(range(256))


# ---- how they are shown ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "none", ""),
        (b"", "text", ""),
        ("grün <b>&amp;".encode(), "text", "grün <b>&amp;"),
        (b"two\nlines", "text", "two\nlines"),
        (b"\x00\x01", "hex", "00 01"),
        (b"\xff", "hex", "ff"),
        (b'{"a":1.50,"a":[]}', "json", '{\n  "a": 1.50,\n  "a": []\n}'),
        (b"{not json", "text", "{not json"),
        (b"[" * 60 + b"]" * 60, "text", "[" * 60 + "]" * 60),
        (b"17", "text", "17"),
    ],
)
def test_each_is_shown_as_what_it_is(data: bytes | None, kind: str, text: str) -> None:
    found = shown(data, 4096)
    assert (found.kind, found.text, found.bytes, found.cut) == (kind, text, len(data or b""), False)


def test_what_is_long_is_cut_and_says_so() -> None:
    assert shown(("ü" * 100).encode(), 11) == ("text", "ü" * 5, 200, True)
    assert shown(BINARY * 100, 40) == ("hex", bytes(range(10)).hex(" "), 25_600, True)
    assert shown(b'{"a": "' + b"x" * 5000 + b'"}', 4096).kind == "text"
    assert len(shown(b"[" + b",".join([b"[[[[[[[[[[[]]]]]]]]]]]"] * 170) + b"]", 4096).text) <= 4096


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), nested, max_leaves=20))
def test_indented_json_says_the_same(value: Any) -> None:
    text = json.dumps(value)
    lines = indented(text)
    assert lines is not None
    assert json.loads(lines) == value
    assert "".join(lines.split()) == "".join(text.split())


def test_a_key_is_text_or_bytes() -> None:
    assert wanted_key("") is None
    assert wanted_key("ü") == "ü".encode()
    assert wanted_key("0x00ff") == b"\x00\xff"
    with pytest.raises(BadQuery):
        wanted_key("0xyz")


def test_they_are_shown_only_behind_a_token() -> None:
    assert not HttpSettings().show_records
    with pytest.raises(SettingsError, match=r"http\.token"):
        HttpSettings(show_records=True)
    assert HttpSettings(show_records=True, token=TOKEN).show_records


def test_of_large_records_no_more_is_kept_than_is_shown() -> None:
    found = records._Found(Query(view="records"), 0, MOST_RECORDS)
    size = 4 * 1024 * 1024
    tracemalloc.start()
    try:
        for offset in range(8):
            batch = build_batch([Record(offset, -1, None, b"x" * size, [])], Rebuild(offset, 1, 0))
            assert found.add(bytes(batch), by_kafka=True)
        del batch
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [row["value"]["bytes"] for row in found.rows()] == [size] * 8
    assert kept < size


# ---- of a real partition ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    """With a topic of one partition: 30 records of a Kafka client, then one of Pulsar's."""
    overrides: Overrides = {"http": {"show_records": True, "token": TOKEN}, "kafka": {"default_partitions": 1}}
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), overrides))
    running.start()
    try:
        producer = Producer({"bootstrap.servers": running.kafka})
        for number in range(30):
            producer.produce(
                "orders", f'{{"number":{number}}}'.encode(), f"key {number % 3}".encode(), timestamp=1_000_000 + number,
                headers=[("trace", b"\x00\x01"), ("none", None)],
            )  # fmt: skip
        assert producer.flush(30) == 0
        client = native.Client(running.pulsar)
        try:
            writer = client.create_producer(f"persistent://{running.namespace}/orders-partition-0")
            writer.send(BINARY, partition_key="key 0", event_timestamp=1_000_030)
        finally:
            client.close()
        yield running
    finally:
        running.stop()


def fetched(bridge: BridgeThread, token: str = TOKEN, site: str = "", **query: Any) -> Any:
    url = f"{bridge.http}/api/state?{urlencode({'view': 'records', **query})}"
    headers = {"Authorization": f"Bearer {token}"} | ({"Sec-Fetch-Site": site} if site else {})
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as response:  # noqa: S310
        return json.load(response)


def look(bridge: BridgeThread, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = fetched(bridge, item="orders", **query)["answer"]["item"]["found"]
    return found


def offsets(found: dict[str, Any]) -> list[int]:
    return [one["offset"] for one in found["records"]]


def test_the_newest_with_their_writer_headers_and_times(bridge: BridgeThread) -> None:
    found = look(bridge, most=3)
    assert (offsets(found), found["start"], found["end"]) == ([28, 29, 30], 0, 31)
    kafka, pulsars = found["records"][1:]
    assert (kafka["writer"], kafka["timestamp"], kafka["key"]["text"]) == ("Kafka", 1_000_029, "key 2")
    assert (kafka["value"]["kind"], kafka["value"]["text"]) == ("json", '{\n  "number": 29\n}')
    assert [(name, value["kind"], value["text"]) for name, value in kafka["headers"]] == [
        ("trace", "hex", "00 01"), ("none", "none", ""),
    ]  # fmt: skip
    assert (pulsars["writer"], pulsars["timestamp"], pulsars["key"]["text"]) == ("Pulsar", 1_000_030, "key 0")
    assert (pulsars["value"]["kind"], pulsars["value"]["text"]) == ("hex", BINARY.hex(" "))


def test_from_an_offset_and_on_to_the_end(bridge: BridgeThread) -> None:
    found = look(bridge, start="offset", at=4, most=5)
    assert (offsets(found), found["next"]) == ([4, 5, 6, 7, 8], 9)
    assert offsets(look(bridge, start="offset", at=found["next"], most=100)) == list(range(9, 31))
    assert offsets(look(bridge, start="offset", at=31)) == []


def test_from_a_time(bridge: BridgeThread) -> None:
    assert offsets(look(bridge, start="time", at=1_000_025)) == list(range(25, 31))
    assert offsets(look(bridge, start="time", at=2_000_000)) == []


def test_by_key(bridge: BridgeThread) -> None:
    assert offsets(look(bridge, key="key 0", most=2)) == [27, 30]
    assert offsets(look(bridge, key="0x" + b"key 1".hex(), start="offset", at=0, most=100)) == list(range(1, 30, 3))
    assert offsets(look(bridge, key="no such key")) == []


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"item": "none"},
        {"item": "orders", "partition": 1},
        {"item": "other/space/orders"},
        {"item": "orders", "key": "0x1"},
    ],
)
def test_what_is_not_there_is_told_in_words(bridge: BridgeThread, query: dict[str, Any]) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(bridge, **query)
    with refused.value as error:
        assert error.code == 400
        assert json.load(error)["error"]


def test_no_more_are_shown_than_is_allowed(bridge: BridgeThread) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka})
    for _ in range(2 * MOST_RECORDS):
        producer.produce("many", b"x" * 20_000)
    assert producer.flush(30) == 0
    found = fetched(bridge, item="many", most=100_000, start="offset")["answer"]["item"]["found"]
    assert len(found["records"]) == MOST_RECORDS
    assert {len(one["value"]["text"]) for one in found["records"]} == {4096}


def test_of_a_batch_with_too_many_records_the_first_are_shown_and_the_next_look_goes_on_behind_it(
    bridge: BridgeThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 60_000})
    for number in range(6):
        producer.produce("dense", f"{number}".encode())
    assert producer.flush(30) == 0
    for number in range(2):
        producer.produce("dense", f"behind {number}".encode())
    assert producer.flush(30) == 0
    monkeypatch.setattr(records, "_MOST_IN_BATCH", 4)
    found = fetched(bridge, item="dense", start="offset", at=0)["answer"]["item"]["found"]
    assert (offsets(found), found["next"]) == ([0, 1, 2, 3, 6, 7], 8)
    assert "the first 4 records alone" in found["stopped"]


def test_a_batch_that_cannot_be_read_hides_no_others(bridge: BridgeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(batches: bytes, limit: int) -> Iterator[Record]:
        if int.from_bytes(batches[:8], "big") == 1:
            raise CorruptEntry("damaged")
        return each_record(batches, limit)

    producer = Producer({"bootstrap.servers": bridge.kafka})
    for number in range(4):
        producer.produce("damaged", f"{number}".encode())
        assert producer.flush(30) == 0  # each is a batch of its own
    monkeypatch.setattr(records, "each_record", damaged)
    found = fetched(bridge, item="damaged")["answer"]["item"]["found"]
    assert (offsets(found), found["next"]) == ([0, 2, 3], 4)
    assert "the batch at 1 cannot be read" in found["stopped"]


def test_each_look_is_told_to_the_audit_log_without_the_key(
    bridge: BridgeThread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    look(bridge, key="key 1")
    (line,) = [one for one in caplog.records if one.message == "= records looked at"]
    fields = line.fields  # type: ignore[attr-defined]
    assert (fields["peer"], fields["topic"], fields["partition"], fields["records"]) == ("127.0.0.1", "orders", 0, 10)
    assert fields["by_key"] is True
    assert "key 1" not in str(fields)


def test_neither_a_stranger_nor_another_site_may_look(bridge: BridgeThread) -> None:
    for wanted, more in ((401, {"token": "wrong"}), (400, {"site": "cross-site"})):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetched(bridge, item="orders", **more)
        assert refused.value.code == wanted
        refused.value.close()
    assert fetched(bridge, item="orders", site="same-origin")


def test_they_are_not_shown_where_that_is_not_set(pulsar: PulsarAddress) -> None:
    plain = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"http": {"token": TOKEN}}))
    plain.start()
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetched(plain, item="orders")
        with refused.value as error:
            assert "http.show_records" in json.load(error)["error"]
    finally:
        plain.stop()


def test_looking_leaves_no_group_and_no_subscription(bridge: BridgeThread) -> None:
    topic = f"persistent://{bridge.namespace}/orders-partition-0"
    before = set(bridge.call(bridge.server.admin.subscriptions(topic)))
    look(bridge)
    assert until(lambda: set(bridge.call(bridge.server.admin.subscriptions(topic))) <= before)
    assert not bridge.server.store.group_count()
