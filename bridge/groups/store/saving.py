"""How the coordinators write to the store, and what members are told when that fails."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridge.errors import KafkaError
from bridge.groups.store.records import BadRecord, Key
from bridge.groups.store.store import GroupStore
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry import log

_log = log.get("groups.coordinator")


def submit(store: GroupStore, group_id: str, records: Mapping[Key, bytes | None]) -> "asyncio.Future[None]":
    """Take a place in the order of writes now; whatever is wrong is told by the future."""
    try:
        return asyncio.ensure_future(store.submit(group_id, records))
    except KafkaError as error:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed


@contextmanager
def readable(group_id: str) -> Iterator[None]:
    """What members get for a group whose stored records cannot be read."""
    try:
        yield
    except BadRecord as error:
        _log.error("! group unreadable", extra={"group": group_id, "error": error})
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None


_STORE_ERRORS: Mapping[int, ErrorCode] = {
    # the members cannot do anything about it (Kafka's appendGroupMetadataErrorToResponseError)
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def error_of(saving: "asyncio.Future[None]") -> ErrorCode:
    """What waiting members are told of a write."""
    error = None if saving.cancelled() else saving.exception()
    if saving.cancelled():
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is None:
        return ErrorCode.NONE
    if isinstance(error, KafkaError):
        return _STORE_ERRORS.get(error.code, ErrorCode(error.code))
    _log.error("! group not stored", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR
