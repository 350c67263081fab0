"""The last notable events: `!` lines and warnings, a bounded number, no kind displaced by another's flood."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from bridge.http.status.events import MOST_KINDS, MOST_OF_A_KIND, EventMemory, folded, of_kind
from bridge.telemetry import log

LOG = log.get("bridge.tests")


@pytest.fixture
def memory() -> Iterator[EventMemory]:
    made = EventMemory()
    made.addFilter(lambda record: record.name in {"bridge.tests", "somelibrary"})  # a bridge of this process logs, too
    made.attach()
    logging.getLogger("bridge.tests").setLevel("DEBUG")
    yield made
    made.detach()


def test_notable_lines_are_kept_with_their_fields_and_meaning(memory: EventMemory) -> None:
    LOG.info("= ready", extra={"version": "1"})
    LOG.debug("! no TLS handshake")
    LOG.info("! denied", extra={"topic": "orders\n! forged", "principal": "User:a"})
    logging.getLogger("somelibrary").warning("odd: %s", "x")
    first, second = memory.kinds()
    assert (first.last[0].text, first.last[0].level) == ("denied", "INFO")
    assert first.last[0].fields == "topic=orders\\n! forged principal=User:a"
    assert "may not do" in first.explanation
    assert (second.last[0].text, second.last[0].logger) == ("odd: x", "somelibrary")


def test_an_error_is_named(memory: EventMemory) -> None:
    try:
        raise ValueError("no such slot")
    except ValueError as error:
        LOG.error("! request failed", exc_info=error)
    assert memory.kinds()[0].last[0].fields == "error=ValueError: no such slot"


def test_a_flood_displaces_no_other_kind(memory: EventMemory) -> None:
    LOG.warning("! denied")
    for number in range(10_000):
        LOG.warning("! refused", extra={"conn": number, "text": "x" * 10_000})
    kinds = {kind.last[0].text: kind for kind in memory.kinds()}
    denied, refused = kinds["denied"], kinds["refused"]
    assert (denied.count, refused.count) == (1, 10_000)
    assert len(refused.last) == MOST_OF_A_KIND
    assert max(len(one.fields) for one in refused.last) < 400


def test_in_the_list_the_fields_of_the_latest_are_cut(memory: EventMemory) -> None:
    LOG.warning("! refused", extra={f"key{number}": "x" * 300 for number in range(20)})
    (row,) = memory.rows()
    assert len(str(row["fields"])) == 500
    (last,) = memory.last("refused")
    assert len(str(last["fields"])) > 5000


def test_kinds_are_bounded_and_the_silent_one_goes_first(memory: EventMemory) -> None:
    for number in range(MOST_KINDS):
        LOG.warning(f"! kind {number}")
    LOG.warning("! kind 0")
    LOG.warning("! one more")
    texts = [kind.last[0].text for kind in memory.kinds()]
    assert len(texts) == MOST_KINDS
    assert "kind 0" in texts
    assert "kind 1" not in texts


def test_events_of_one_kind_are_folded_over_all_nodes(memory: EventMemory) -> None:
    for number in range(3):
        LOG.warning("! denied", extra={"number": number})
    LOG.warning("! refused")
    here = memory.rows()
    denied = next(row for row in here if row["text"] == "denied")
    assert (denied["count"], denied["fields"]) == (3, "number=2")
    later = {**denied, "at": float(str(denied["at"])) + 5, "count": 4, "fields": "number=9"}
    found = {row["text"]: row for row in folded([*((0, row) for row in here), (2, later)])}
    assert (found["denied"]["count"], found["denied"]["fields"], found["denied"]["node"]) == (7, "number=9", "0, 2")
    assert (found["refused"]["count"], found["refused"]["node"]) == (1, "0")


def test_the_last_of_a_kind_are_shown_the_latest_first(memory: EventMemory) -> None:
    for number in range(2):
        LOG.warning("! denied", extra={"number": number})
    found = of_kind("denied", [(0, memory.last("denied")), (1, None)])
    assert found is not None
    assert [one["fields"] for one in found["events"]] == ["number=1", "number=0"]  # type: ignore[attr-defined]
    assert of_kind("denied", [(0, memory.last("never"))]) is None


def test_nothing_is_heard_after_the_end() -> None:
    memory = EventMemory()
    memory.attach()
    memory.detach()
    LOG.warning("! refused")
    assert not memory.kinds()
