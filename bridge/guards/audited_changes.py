"""Tells the audit log what clients have changed by administration: topics, configs, records, groups and permissions.

Users and quotas are told by their own APIs, refusals with the denials. What has failed is no change; where Pulsar has
not answered in time, it may be one.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from bridge.config import INTERNAL
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Session
from bridge.security.acls import Operation, PatternType, Permission, ResourceType
from bridge.storage.topics.resources import ResourceType as ConfigResource
from bridge.telemetry import log

MAX_LINES: Final = 100
"""Of one request; how many more changes it made is told in one line."""
_MAX_CHARACTERS: Final = 500
_E = TypeVar("_E", bound=IntEnum)

_audit = log.get("bridge.audit")


class Change(NamedTuple):
    """What was done, or may have been."""

    code: int
    resource: str
    name: str
    change: str
    detail: str = ""


def _word(kind: type[_E], number: int) -> str:
    return kind(number).name.lower() if number in kind._value2member_map_ else str(number)


def _created_topics(request: Any, response: Any) -> Iterator[Change]:
    if not request.validate_only:
        yield from (Change(one.error_code, "topic", one.name, "created") for one in response.topics)


def _deleted_topics(request: Any, response: Any) -> Iterator[Change]:
    for one in response.responses:
        yield Change(one.error_code, "topic", one.name or str(one.topic_id), "deleted")


def _partitions(request: Any, response: Any) -> Iterator[Change]:
    counts = {one.name: str(one.count) for one in request.topics}
    if not request.validate_only:
        for one in response.results:
            yield Change(one.error_code, "topic", one.name, "partitions added", counts.get(one.name, ""))


def _deleted_records(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics:
        for one in topic.partitions:
            name = f"{topic.name}-{one.partition_index}"
            yield Change(one.error_code, "partition", name, "records deleted", f"before {one.low_watermark}")


def _configs(request: Any, response: Any) -> Iterator[Change]:
    """Their names alone: a value may be anything."""
    if request.validate_only:
        return
    asked = {(one.resource_type, one.resource_name): one.configs for one in request.resources}
    for one in response.responses:
        names = ",".join(config.name for config in asked.get((one.resource_type, one.resource_name), ()))
        yield Change(
            one.error_code, _word(ConfigResource, one.resource_type), one.resource_name, "configs changed", names
        )


def _deleted_groups(request: Any, response: Any) -> Iterator[Change]:
    yield from (Change(one.error_code, "group", one.group_id, "deleted") for one in response.results)


def _deleted_offsets(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics if not response.error_code else ():
        for one in topic.partitions:
            detail = f"{topic.name}-{one.partition_index}"
            yield Change(one.error_code, "group", request.group_id, "offsets deleted", detail)


def _created_entries(request: Any, response: Any) -> Iterator[Change]:
    for one, result in zip(request.creations, response.results, strict=False):
        entry = _entry(one, one.resource_pattern_type)
        yield Change(result.error_code, _word(ResourceType, one.resource_type), one.resource_name, "acl created", entry)


def _deleted_entries(request: Any, response: Any) -> Iterator[Change]:
    for result in response.filter_results:
        for one in result.matching_acls:
            kind = _word(ResourceType, one.resource_type)
            yield Change(one.error_code, kind, one.resource_name, "acl deleted", _entry(one, one.pattern_type))


def _entry(one: Any, pattern: int) -> str:
    permission, operation = _word(Permission, one.permission_type), _word(Operation, one.operation)
    return f"{permission} {operation} to {one.principal} from {one.host}, {_word(PatternType, pattern)}"


CHANGES: Final[Mapping[int, Callable[[Any, Any], Iterator[Change]]]] = {
    19: _created_topics,
    20: _deleted_topics,
    21: _deleted_records,
    30: _created_entries,
    31: _deleted_entries,
    33: _configs,
    37: _partitions,
    42: _deleted_groups,
    44: _configs,
    47: _deleted_offsets,
}
"""What an answered request has changed, by the API's key."""
_OUTCOMES: Final[Mapping[int, str]] = {ErrorCode.NONE: "done", ErrorCode.REQUEST_TIMED_OUT: "unconfirmed"}


def tell(key: int, request: Any, response: Any, session: Session) -> None:
    """A request was answered. What another node has passed on is told there."""
    if session.listener == INTERNAL:
        return
    about = {
        "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
        "principal": session.principal,
    }  # fmt: skip
    lines = 0
    for one in CHANGES[key](request, response):
        outcome = _OUTCOMES.get(one.code)
        if outcome is None:
            continue
        lines += 1
        if lines <= MAX_LINES:
            what = {"resource": one.resource, "name": one.name[:_MAX_CHARACTERS], "change": one.change}
            detail = one.detail[:_MAX_CHARACTERS]
            _audit.info("= changed", extra={**about, **what, "detail": detail, "outcome": outcome})
    if lines > MAX_LINES:
        _audit.info("= more was changed", extra={**about, "count": lines - MAX_LINES})
