"""What both coordinators ask of the store, and what members are told when it fails."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.store.records import BadRecord, Key, StoredGroup
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Outcomes
from bridge.telemetry import log

_log = log.get("groups.coordinator")

Lost: TypeAlias = Callable[[Callable[[str], bool]], None]


class RecordWriter(Protocol):
    """Where records of groups are written."""

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> Awaitable[None]:
        """Store records, in the order of the calls."""


class GroupRecordStore(RecordWriter, Protocol):
    """Where groups are kept (`store.GroupStore`)."""

    on_owned: list[Callable[[list[str]], None]]
    on_lost: list[Lost]

    @property
    def outcomes(self) -> Outcomes:
        """Of the transactions that commit offsets."""

    async def load(self, group_id: str, *, confirmed: bool = True) -> StoredGroup:
        """What is stored of a group; unless `confirmed`, as far as this bridge knows."""

    async def confirm(self, group_id: str) -> None:
        """Raise as `load` unless what is known of the group is up to date."""

    async def write(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        """As `submit`; returns when Pulsar has acknowledged them."""

    def known(self, group_id: str) -> StoredGroup:
        """As `load`, at once: an empty one also where its slot is not owned."""

    def slot_of(self, group_id: str) -> int:
        """The slot that a group lives in."""

    async def ready(self) -> None:
        """Wait until `groups` is complete."""

    def groups(self) -> Iterable[str]:
        """Every group that has anything stored."""


def submit(store: RecordWriter, group_id: str, records: Mapping[Key, bytes | None]) -> "asyncio.Future[None]":
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
