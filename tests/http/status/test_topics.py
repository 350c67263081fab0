"""Topics of all nodes: how fast they grow, and the list of all that Pulsar has; the rest is in `test_node`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.errors import KafkaError
from bridge.http.status import topics
from bridge.http.status.table import MOST_SECONDS
from bridge.http.status.topics import Catalogue, Growth
from bridge.kafka.error_codes import ErrorCode


def test_a_rate_is_of_the_time_between_two_looks() -> None:
    growth = Growth()
    growth.begin(100.0)
    assert growth.rates("t", 7, 3) == (None, None)
    growth.begin(110.0)
    assert growth.rates("t", 27, 2) == (2.0, None)  # what becomes less has started over


def test_it_is_known_also_where_tables_are_made_as_seldom_as_can_be() -> None:
    growth = Growth()
    growth.begin(0.0)
    growth.rates("t", 0)
    growth.begin(2 * MOST_SECONDS + 5.0)  # this node's own rows were just not old enough for the look before
    assert growth.rates("t", 65) == (1.0,)
    growth.begin(3600.0)
    assert growth.rates("t", 70) == (None,)


class Pulsar:
    """The topics of each namespace; those of one may not be told."""

    def __init__(self, of: Mapping[str, list[str]]) -> None:
        self.of = dict(of)
        self.refuses: set[str] = set()

    def catalogue(self) -> Catalogue:
        return Catalogue(cast(Any, SimpleNamespace(services=self._services, cluster=None)))

    def _services(self) -> list[Any]:
        topics_of = {name: SimpleNamespace(names=partial(self._names, name)) for name in self.of}
        return [SimpleNamespace(name=name, is_own=name == "own", topics=of) for name, of in topics_of.items()]

    async def _names(self, name: str) -> list[str]:
        if name in self.refuses:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self.of[name]


async def refreshed(catalogue: Catalogue) -> list[str]:
    """The names of all topics, once they have been asked again."""
    await catalogue.refresh()
    if catalogue._naming is not None:
        await asyncio.wait((catalogue._naming,))
    return sorted(str(row["name"]) for row in await catalogue.rows([]))


async def test_a_namespace_that_is_not_told_takes_none_of_the_others_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_NAMES_SECONDS", -1.0)
    pulsar = Pulsar({"own": ["a"], "t/n": ["b"]})
    catalogue = pulsar.catalogue()
    assert await refreshed(catalogue) == ["a", "t/n/b"]
    pulsar.refuses.add("t/n")
    pulsar.of["own"] = ["a", "c"]
    assert await refreshed(catalogue) == ["a", "c", "t/n/b"]
    assert catalogue.count == 3
    del pulsar.of["t/n"]
    assert await refreshed(catalogue) == ["a", "c"]


async def test_topics_are_not_counted_before_pulsar_has_told_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_NAMES_SECONDS", -1.0)
    pulsar = Pulsar({"own": []})
    pulsar.refuses.add("own")
    catalogue = pulsar.catalogue()
    assert await refreshed(catalogue) == []
    assert catalogue.count is None
    pulsar.refuses.clear()
    assert await refreshed(catalogue) == []
    assert catalogue.count == 0
