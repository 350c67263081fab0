"""An answer as one line: the errors, names and operations that it tells, without what differs by chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.schema import ZERO_UUID, Field, fields_of
from bridge.security.acls import Operation
from tests.authorization.login import CLOSED
from tests.authorization.world import World

_NAMES = {
    "name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_name", "user", "feature",
    "entity_name",
}  # fmt: skip
_NUMBERS = {"index", "partition", "partition_index", "partition_id"}
_LEFT_OUT = {
    "api_keys", "brokers", "configs", "credential_infos", "current_voters", "listeners", "mechanisms", "node_endpoints",
    "nodes", "observers", "active_producers", "aborted_transactions", "record_errors", "acls", "values",
}  # fmt: skip
"""Arrays that rights do not decide about one by one."""
_NO_OPERATIONS = -(2**31)


def line(answer: Any, version: int, world: World) -> str:
    """What an answer says, in an order of its own; NONE where it is empty."""
    if answer is None or answer == CLOSED:
        return answer or "no answer"
    return " ".join(sorted(set(_parts(answer, version, world, "")))) or ErrorCode.NONE.name


def _parts(message: Any, version: int, world: World, path: str) -> Iterator[str]:
    """The errors and names of a message, each with the names above it."""
    there = [one for one in fields_of(type(message)) if one.exists(version)]
    own = _label(message, there, world)
    if own is None:
        return
    path = "/".join(part for part in (path, own) if part)
    below = [part for one in there for part in _below(message, one, version, world, path)]
    said = [text for one in there if (text := _said(one, getattr(message, one.name)))]
    if said or (path and not below):
        yield path + (":" if path and said else "") + ",".join(said)
    yield from below


def _below(message: Any, one: Field, version: int, world: World, path: str) -> Iterator[str]:
    element = one.type.element
    if element is None or element.message is None or one.name in _LEFT_OUT:
        return
    value = getattr(message, one.name)
    for part in value if isinstance(value, list) else ():
        yield from _parts(part, version, world, path)


def _said(one: Field, value: Any) -> str:
    if one.name.endswith("error_code") and value:
        what = one.name.removesuffix("error_code").removeprefix("partition_").strip("_")
        return f"{what}={ErrorCode(value).name}" if what else ErrorCode(value).name
    if one.name.endswith("authorized_operations") and value != _NO_OPERATIONS:
        return "may(" + ",".join(operation.name for operation in Operation if value >> operation & 1) + ")"
    return ""


def _label(message: Any, there: list[Field], world: World) -> str | None:
    """What a message is about: "" where it does not say, None where it is about what is left out."""
    values = {one.name: getattr(message, one.name) for one in there}
    topic_id = values.get("topic_id", ZERO_UUID)
    for name in _NAMES & values.keys():
        if values[name]:
            called = world.called(values[name])
            failed = values.get("error_code") and topic_id != ZERO_UUID
            return called + "+id" if called and failed else called
    if topic_id != ZERO_UUID:
        return "id:" + world.called_by_id(topic_id)
    return next((str(values[name]) for name in sorted(_NUMBERS & values.keys())), "")
