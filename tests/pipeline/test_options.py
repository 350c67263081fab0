"""Options are read without I/O, and what is wrong is said in one line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bridge.pipeline import options
from bridge.pipeline.errors import Usage
from bridge.pipeline.options import EndpointOptions, Position, Selection, position, read_properties
from bridge.pipeline.ranges import Partition

ALL = Position(named="earliest"), Position(named="latest")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    options.add_endpoint(parser)
    options.add_selection(parser)
    options.add_appending(parser)
    return parser.parse_args(["--bootstrap", "localhost:9092", *words])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Position(named="earliest")),
        ("latest", Position(named="latest")),
        ("2023-11-14T22:13:20", Position(time=1_700_000_000_000)),
        ("2023-11-14T23:13:20.001+01:00", Position(time=1_700_000_000_001)),
        ("2023-11-14", Position(time=1_699_920_000_000)),
        ('{"t": {"0": 17, "12": 0}}', Position(offsets={Partition("t", 0): 17, Partition("t", 12): 0})),
    ],
)
def test_every_form_of_a_position_is_read(text: str, expected: Position) -> None:
    assert position(text) == expected


def test_offsets_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"t": {"0": 17}}')
    assert position(str(file)) == Position(offsets={Partition("t", 0): 17})


@pytest.mark.parametrize(
    "text",
    ["soon", "{", "{}", '{"t": 1}', '{"t": {"x": 1}}', '{"t": {"0": -1}}', '{"t": {"0": "1"}}', '{"t": {"0": true}}'],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(Usage):
        position(text)


def test_a_selection_names_topics_that_exist() -> None:
    existing = {"orders", "orders-2", "people"}
    assert Selection(("people", "orders", "people"), None, *ALL).chosen(existing) == ["people", "orders"]
    assert Selection((), "orders.*", *ALL).chosen(existing) == ["orders", "orders-2"]
    assert Selection((), None, *ALL).chosen(existing) == sorted(existing)
    assert Selection((), ".*", *ALL).chosen(existing | {"__consumer_offsets"}) == sorted(existing)
    assert Selection((), "__.*", *ALL).chosen(existing | {"__consumer_offsets"}) == ["__consumer_offsets"]
    with pytest.raises(Usage, match="no such topic: unknown"):
        Selection(("orders", "unknown"), None, *ALL).chosen(existing)
    with pytest.raises(Usage, match="no topic matches order"):
        Selection((), "order", *ALL).chosen(existing)


@pytest.mark.parametrize("words", [["--topics", " , "], ["--pattern", "("], ["--topics", "t", "--from", "soon"]])
def test_a_selection_that_says_nothing_is_refused(words: list[str]) -> None:
    with pytest.raises(Usage):
        options.selection(parsed(*words))


def test_a_job_that_goes_on_begins_at_a_place_that_stays() -> None:
    with pytest.raises(Usage, match="give the time"):
        options.lasting_selection(parsed("--topics", "t", "--from", "latest"))
    assert options.lasting_selection(parsed("--topics", "t")).start.named == "earliest"


def test_topics_and_a_pattern_exclude_each_other() -> None:
    with pytest.raises(argparse.ArgumentError):
        parsed("--topics", "t", "--pattern", "t")


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9092", "a:1,b", "http://a:1"])
def test_an_address_needs_a_port(address: str) -> None:
    with pytest.raises(Usage):
        options.endpoint_options(parsed("--topics", "t", "--bootstrap", address))


@pytest.mark.parametrize("address", ["localhost:9092", "a:1,b:2", "[::1]:9092"])
def test_addresses_are_taken_as_they_are(address: str) -> None:
    assert options.endpoint_options(parsed("--topics", "t", "--bootstrap", address)).bootstrap == address


def test_properties_are_passed_on_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n! another\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=org.Plain required \\\n"
        '    username="u" password="p=w";\n'
    )
    endpoint = options.endpoint_options(parsed("--topics", "t", "--kafka-conf", str(file)))
    assert endpoint.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'org.Plain required username="u" password="p=w";',
    }
    assert endpoint.spark_options()["kafka.security.protocol"] == "SASL_SSL"
    assert endpoint.spark_options()["kafka.bootstrap.servers"] == "localhost:9092"
    assert "p=w" not in repr(endpoint)


def test_a_line_that_is_no_property_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a=b\nsecret\n")
    with pytest.raises(Usage, match=r":2: not NAME=VALUE$"):
        read_properties(file)
    with pytest.raises(Usage, match="cannot read"):
        read_properties(tmp_path / "nowhere")


def test_only_what_was_committed_is_read_unless_asked_otherwise() -> None:
    assert EndpointOptions("a:1").spark_options()["kafka.isolation.level"] == "read_committed"
    asked = EndpointOptions("a:1", {"isolation.level": "read_uncommitted"})
    assert asked.spark_options()["kafka.isolation.level"] == "read_uncommitted"


def test_topics_are_renamed_one_to_one() -> None:
    assert options.topic_names(parsed("--topics", "a,b", "--map", "a=x"), ["a", "b"]) == {"a": "x", "b": "b"}
    for wrong in ("a", "a=", "c=x", "a=b"):
        with pytest.raises(Usage):
            options.topic_names(parsed("--topics", "a,b", "--map", wrong), ["a", "b"])


def test_a_limited_rate_makes_chunks_small() -> None:
    assert options.chunk_size(parsed("--topics", "t")) == 1_000_000
    assert options.chunk_size(parsed("--topics", "t", "--rate", "100")) == 500
    for wrong in (["--rate", "0"], ["--chunk", "0"]):
        with pytest.raises(Usage):
            options.chunk_size(parsed("--topics", "t", *wrong))
