"""A bad request, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.schema import fields_of
from bridge.requests.api import Api
from tests.apis.wire import ask_at
from tests.support.versions import newest


@dataclass(slots=True)
class World:
    """What there is on the server that the requests go to."""

    address: str
    topic: str
    """Two partitions, with a record in each."""
    topic_id: UUID
    missing: str
    """A topic that does not exist."""
    group: str
    """A classic group with one member, which is stable."""
    member: str
    generation: int
    consumers: str
    """A group of the new protocol with one member."""
    consumer: str
    node: int
    directory: str
    made: dict[str, str] = field(default_factory=dict)
    """What a request has created, and how the pinned texts call it."""

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """What the server answers."""
        return ask_at(self.address, api, request, version)

    def fill(self, text: str) -> str:
        """A pinned text as it reads on this server."""
        names = {
            "topic": self.topic, "missing": self.missing, "group": self.group, "consumers": self.consumers,
            "dotted": self.topic.replace("_", "."), "node": str(self.node), "long": "x" * 250, **self.made,
        }  # fmt: skip
        for name, value in names.items():
            text = text.replace("{" + name + "}", value)
        return text


@dataclass(frozen=True, slots=True)
class Case:
    """One bad request."""

    name: str
    api: Api
    request: Callable[[World], Any]
    kafka: str
    """What Kafka says: the errors of its answer with their texts, ` | ` between them; NONE where there are none."""
    ours: str = ""
    """What the bridge says where that differs by intent; `why` says why."""
    why: str = ""
    version: int | None = None

    @property
    def id(self) -> str:
        """Its name in a test run."""
        return f"{self.api.name}: {self.name}"

    def told(self, world: World) -> str:
        """What the server says."""
        version = newest(self.api) if self.version is None else self.version
        answer = world.ask(self.api, self.request(world), version)
        return " | ".join(_errors(answer, version)) or ErrorCode.NONE.name


def _errors(answer: Any, version: int) -> Iterator[str]:
    """Every error of an answer, from the outside in."""
    there = [one for one in fields_of(type(answer)) if one.exists(version)]
    names = {one.name for one in there}
    for one in there:
        value = getattr(answer, one.name)
        if one.name.endswith("error_code"):
            text_field = one.name.removesuffix("code") + "message"
            text = getattr(answer, text_field) if text_field in names else None
            if value:
                yield ErrorCode(value).name + (f": {text}" if text else "")
        elif one.type.element is not None and one.type.element.message is not None:
            for element in value or ():
                yield from _errors(element, version)
