"""Logs: one event a line, whatever is in it."""

import io
import json
import logging

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bridge.config import LogSettings
from bridge.telemetry import log


@pytest.fixture
def text(own_log: None) -> io.StringIO:
    stream = io.StringIO()
    log.configure(LogSettings(), stream)
    return stream


@pytest.fixture
def lines(own_log: None) -> io.StringIO:
    stream = io.StringIO()
    log.configure(LogSettings(format="json", level="debug"), stream)
    return stream


def test_fields_follow_the_event(text: io.StringIO) -> None:
    log.get("bridge.x").bind(conn=7).info(
        "< request", extra={"api": "Fetch", "topic": "a b", "empty": "", "none": None}
    )
    time, rest = text.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO bridge.x < request conn=7 api=Fetch topic="a b" empty="" none=""\n'


def test_fields_of_the_process_are_on_every_line(own_log: None) -> None:
    stream = io.StringIO()
    log.configure(LogSettings(format="json"), stream, {"worker": 1})
    log.get("bridge.x").info("= one", extra={"conn": 7})
    logging.getLogger("asyncio").error("a library's")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["worker"], first["conn"], second["worker"]) == (1, 7, 1)


def test_any_field_name_will_do(text: io.StringIO) -> None:
    log.get("x").info("= up", extra={"name": "n", "message": "m", "args": "a", "level": "l"})
    assert text.getvalue().endswith(" = up name=n message=m args=a level=l\n")


def test_below_the_level_nothing_is_written(text: io.StringIO) -> None:
    log.get("x").debug("= quiet")
    assert text.getvalue() == ""


def test_a_client_cannot_forge_a_line(text: io.StringIO) -> None:
    log.get("x").info("< hello", extra={"client": 'a"\n2026 INFO x = forged\x1b[2J\u202e\u2028 k=v'})
    line = text.getvalue()
    assert line.count("\n") == 1
    assert line.endswith('client="a\\"\\n2026 INFO x = forged\\x1b[2J\\u202e\\u2028 k=v"\n')


def test_a_traceback_is_indented_and_escaped(text: io.StringIO) -> None:
    try:
        raise ValueError("bad\n2026 INFO forged")
    except ValueError:
        log.get("x").exception("! failed")
    first, *rest = text.getvalue().splitlines()
    assert first.endswith("ERROR x ! failed")
    assert rest and all(line.startswith("    | ") for line in rest)


def test_json_has_four_fixed_keys_that_no_field_replaces(lines: io.StringIO) -> None:
    log.get("x").warning("! slow", extra={"seconds": 1.5, "event": "forged", "address": ("h", 1), "ok": True})
    found = json.loads(lines.getvalue())
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "WARNING",
        "logger": "x",
        "event": "! slow",
        "seconds": 1.5,
        "address": "('h', 1)",
        "ok": True,
    }


@given(st.dictionaries(st.text(), st.text()), st.text())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_is_one_line_and_says_what_was_said(lines: io.StringIO, fields: dict[str, str], event: str) -> None:
    lines.seek(0)
    lines.truncate()
    log.get("x").info("%s", event, extra=fields)
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    (found,) = [one for one in said if one["logger"] == "x"]  # threads of earlier tests may say something, too
    assert found["event"] == event
    fixed = ("time", "level", "logger", "event")
    assert all(found[key] == value for key, value in fields.items() if key not in fixed and "://" not in value)


@given(st.text())
def test_escaped_text_is_printable(text: str) -> None:
    assert log.escape(text).isprintable()


@pytest.mark.parametrize("form", ["text", "lines"])
def test_a_field_is_cut_however_long_its_name_or_value_was_made(form: str, request: pytest.FixtureRequest) -> None:
    stream: io.StringIO = request.getfixturevalue(form)
    log.get("x").warning("! slow", extra={"group": "g" * 30_000, "where": ("h" * 30_000, 1)})
    assert "of 30000 characters" in stream.getvalue()
    assert len(stream.getvalue()) < 3 * log.MOST_CHARACTERS


@pytest.mark.parametrize("form", ["text", "lines"])
def test_passwords_in_urls_are_not_told(form: str, request: pytest.FixtureRequest) -> None:
    stream: io.StringIO = request.getfixturevalue(form)
    try:
        raise ValueError("http://me:hunter2@h:1/x?token=hunter2 cannot be reached")
    except ValueError as error:
        log.get("x").warning("! away", extra={"error": error, "url": "https://hunter2@h"}, exc_info=error)
    assert "hunter2" not in stream.getvalue()
    assert "http://(not shown)@h:1/x?(not shown) cannot be reached" in stream.getvalue()


def test_a_flood_of_lines_is_told_in_part_and_counted() -> None:
    now = 100.0
    flood = log.Flood(3, lambda: now)
    assert [flood.next_line() for _ in range(5)] == [{}, {}, {}, None, None]
    now += 1.0
    assert [flood.next_line() for _ in range(4)] == [{"left_out": 2}, {}, {}, None]
    now += 60.0
    assert [flood.next_line(), flood.next_line()] == [{"left_out": 1}, {}]
