"""Tells the audit log what clients have changed by administration: topics, configs, records, groups and permissions.

Users and quotas are told where they are changed, refusals with the denials. What has failed is no change; where Pulsar
has not answered in time, it may be one.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from bridge.config import INTERNAL
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.session import Session
from bridge.security.acls import Operation, PatternType, Permission, ResourceType
from bridge.telemetry import log

MAX_LINES: Final = 100
"""Of one request; how many more changes it made is told in one line."""
_MAX_CHARACTERS: Final = 500
_OUTCOMES: Final[Mapping[int, str]] = {ErrorCode.NONE: "done", ErrorCode.REQUEST_TIMED_OUT: "unconfirmed"}

_audit = log.get("bridge.audit")


class AuditedChange(NamedTuple):
    """A line for the audit log: what was done by administration, or may have been."""

    code: int
    """The error that was answered: what has failed is no change."""
    resource: str
    name: str
    change: str
    detail: str = ""


def tell(changes: Iterable[AuditedChange], session: Session) -> None:
    """A client's request was answered, and has changed this. What another node has passed on is told there."""
    if session.listener == INTERNAL:
        return
    about = {
        "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
        "principal": session.principal,
    }  # fmt: skip
    lines = 0
    for one in changes:
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


def word(kind: type[IntEnum], number: int) -> str:
    """A number of an enumeration by its name, if it has one."""
    return kind(number).name.lower() if number in kind._value2member_map_ else str(number)


def entry_change(one: Any, pattern: int, code: int, change: str) -> AuditedChange:
    """What was done with an access control entry; `one`: its fields as CreateAcls and DeleteAcls name them."""
    permission, operation = word(Permission, one.permission_type), word(Operation, one.operation)
    detail = f"{permission} {operation} to {one.principal} from {one.host}, {word(PatternType, pattern)}"
    return AuditedChange(code, word(ResourceType, one.resource_type), one.resource_name, change, detail)
