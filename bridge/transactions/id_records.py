"""The newest record of each transactional id of a slot: all nodes have those of all ids in memory.

Nearly all of them have nothing open, and name nothing. Those are packed, and made when someone asks for them.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from bridge.storage.visibility import Identity
from bridge.transactions.state import INITIALIZED, Ended, Status, TransactionRecord

_STANDING: Final = Struct("<qHqc")
"""The identity, and the status: what readers ask for, so it comes first."""
_PACKED: Final = Struct(_STANDING.format + "qBIqqcqH")
"""And revision, protocol, time-out, times of beginning and change, how the last epoch ended, and which that was."""
_STATUS: Final[Mapping[bytes, Status]] = {status.encode(): status for status in Status}
_HOW: Final[Mapping[bytes, str]] = {how.encode(): str(how) for how in (Status.COMMITTED, Status.ABORTED, INITIALIZED)}
_NOT_ENDED: Final = b"-"
_NO_PARTITIONS: Final[Mapping[tuple[str, str], tuple[tuple[int, int], ...]]] = {}
_NO_FIRSTS: Final[Mapping[tuple[str, int], int]] = {}


class IdRecords(Mapping[str, TransactionRecord]):
    """By transactional id."""

    def __init__(self) -> None:
        self._kept: dict[str, TransactionRecord | bytes] = {}

    def __getitem__(self, transactional_id: str) -> TransactionRecord:
        kept = self._kept[transactional_id]
        return _unpacked(kept) if isinstance(kept, bytes) else kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, transactional_id: str, record: TransactionRecord) -> None:
        """The newest record of an id, in place of the one before."""
        names = record.partitions or record.firsts or record.groups
        self._kept[transactional_id] = record if names or record.status is Status.OPEN else _packed(record)

    def remove(self, transactional_id: str) -> None:
        """An id is gone."""
        del self._kept[transactional_id]

    def standing(self, transactional_id: str) -> tuple[Identity, Status]:
        """The identity and the status in an id's record."""
        kept = self._kept[transactional_id]
        if not isinstance(kept, bytes):
            return kept.identity, kept.status
        *identity, status = _STANDING.unpack_from(kept)
        return Identity(*identity), _STATUS[status]


def _packed(record: TransactionRecord) -> bytes:
    ended = record.ended or Ended(0, 0, _NOT_ENDED.decode())
    return _PACKED.pack(
        *record.identity,
        record.status.encode(),
        record.revision,
        record.protocol,
        record.timeout_ms,
        record.begun_ms,
        record.changed_ms,
        ended.how.encode(),
        ended.producer_id,
        ended.epoch,
    )


def _unpacked(data: bytes) -> TransactionRecord:
    producer_id, epoch, n, status, revision, protocol, *times, how, ended_id, ended_epoch = _PACKED.unpack(data)
    timeout_ms, begun_ms, changed_ms = times
    return TransactionRecord(
        revision=revision,
        producer_id=producer_id,
        epoch=epoch,
        n=n,
        status=_STATUS[status],
        protocol=protocol,
        timeout_ms=timeout_ms,
        begun_ms=begun_ms,
        changed_ms=changed_ms,
        ended=None if how == _NOT_ENDED else Ended(ended_id, ended_epoch, _HOW[how]),
        partitions=_NO_PARTITIONS,
        firsts=_NO_FIRSTS,
        groups=frozenset(),
    )
