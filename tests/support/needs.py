"""Markers that say which servers a test starts: they follow from its fixtures, so none is written by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

MARKERS = {
    "new_kafka": "kafka",
    "new_pulsar": "pulsar",
    "pulsar_jars": "pulsar",
    "spark": "spark",
    "spark_jars": "spark",
}
"""By fixture: a test that takes it, also through other fixtures, gets the marker."""


def mark(items: list[pytest.Item]) -> None:
    """Give every test the markers of its fixtures."""
    for item in items:
        for marker in sorted({MARKERS[name] for name in fixtures(item) & MARKERS.keys()}):
            item.add_marker(marker)


def fixtures(item: pytest.Item) -> set[str]:
    """All fixtures of a test, including those that `request.getfixturevalue(request.param)` asks for."""
    found = set(getattr(item, "fixturenames", ()))
    manager = item.session._fixturemanager
    for name in _named_by_parameters(item):
        closure, _ = manager.getfixtureclosure(item, (name,), set())
        found.update(closure)
    return found


def _named_by_parameters(item: pytest.Item) -> Iterator[str]:
    """The fixtures that parameters of fixtures name; pytest itself cannot see them."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return
    manager = item.session._fixturemanager
    for argument, value in callspec.params.items():
        # only a fixture's parameter: a test's own, from `parametrize`, may be any word
        if isinstance(value, str) and manager.getfixturedefs(argument, item) and manager.getfixturedefs(value, item):
            yield value
