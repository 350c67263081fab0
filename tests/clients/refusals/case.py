"""A bad request, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bridge.api import Api
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.schema import fields_of
from tests.apis.wire import ask_at

Told = str
"""An error of an answer: its name, and its text where it has one (`INVALID_REQUEST: …`)."""


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

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """What the server answers."""
        return ask_at(self.address, api, request, version)

    def names(self) -> dict[str, str]:
        """What differs between servers and runs, as it stands in the pinned texts."""
        found = {
            "{topic}": self.topic, "{missing}": self.missing, "{group}": self.group, "{consumers}": self.consumers,
            "{member}": self.member, "{consumer}": self.consumer, "{directory}": self.directory,
            "{dotted}": self.topic.replace("_", "."),
        }  # fmt: skip
        return {**found, **{"{" + name + "}": text for name, text in self.made.items()}}


@dataclass(frozen=True, slots=True)
class Case:
    """One bad request."""

    name: str
    api: Api
    request: Callable[[World], Any]
    kafka: Sequence[Told]
    """What Kafka says."""
    ours: Sequence[Told] | None = None
    """What the bridge says where that differs by intent; `why` says why."""
    why: str = ""
    version: int | None = None

    @property
    def id(self) -> str:
        """Its name in a test run."""
        return f"{self.api.name}: {self.name}"

    def told(self, world: World) -> list[Told]:
        """What the server says."""
        version = self.api.max_version if self.version is None else self.version
        answer = world.ask(self.api, self.request(world), version)
        return [_plain(text, world) for text in _errors(answer, version)]


def _plain(text: str, world: World) -> str:
    for name, value in sorted(world.names().items(), key=lambda one: -len(one[1])):
        text = text.replace(value, name) if value else text
    return text


def _errors(answer: Any, version: int) -> Iterator[Told]:
    """Every error that an answer has a place for, from the outside in."""
    there = [one for one in fields_of(type(answer)) if one.exists(version)]
    names = {one.name for one in there}
    for one in there:
        value = getattr(answer, one.name)
        if one.name.endswith("error_code"):
            text_field = one.name.removesuffix("code") + "message"
            text = getattr(answer, text_field) if text_field in names else None
            # without an error the text is null, "" or NONE, as it comes
            yield ErrorCode(value).name + (f": {text}" if value and text else "")
        elif one.type.element is not None and one.type.element.message is not None:
            for element in value or ():
                yield from _errors(element, version)
