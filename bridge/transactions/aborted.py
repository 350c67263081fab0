"""The aborted transactions of a slot: which they are, on every node; what is stored of them, at the slot's holder.

Only these need a record of their own: what is below its transactional id's record, and not among them, was committed.
They are stored alone (`a/`) or by blocks (`A/`). A transaction is aborted if either says so. A record that takes the
place of others is written ahead of their deletion, in the same entry. So at no place of the log is one missing.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Final

from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.ranges import Ranges, union
from bridge.transactions.records import BLOCK_SIZE, AbortedKey, AbortedRecord, BlockKey, Named

MOST_ALONE: Final = 8
"""So many of a block are stored alone."""


class AbortedIdentities:
    """Which transactions are aborted.

    There may be hundreds of thousands, each alone in its block, or millions in few blocks. So keys are packed numbers
    and values are bytes.
    """

    def __init__(self) -> None:
        self._alone: dict[int, bytes] = {}
        """By block: the bits of those that are stored alone, two bytes each."""
        self._blocks: dict[int, bytes] = {}
        self._unreadable: set[int] = set()
        self._stored_alone = 0

    def __contains__(self, identity: Identity) -> bool:
        block, bit = _place(identity)
        bitmap = self._blocks.get(block)
        if bitmap is not None and bitmap[bit >> 3] >> (bit & 7) & 1:
            return True
        alone = self._alone.get(block)
        return alone is not None and bit in array("H", alone)

    def is_in_doubt(self, identity: Identity) -> bool:
        """Whether its block is of a later version, so that it may be aborted though it is not in here."""
        return bool(self._unreadable) and _place(identity)[0] in self._unreadable

    def live(self) -> int:
        """How many keys have a value."""
        return self._stored_alone + len(self._blocks) + sum(block not in self._blocks for block in self._unreadable)

    def apply(self, key: AbortedKey | BlockKey, value: bytes | None) -> None:
        """A record is stored; no value deletes it."""
        if isinstance(key, BlockKey):
            self._apply_block(_packed(key), value)
        else:
            self._apply_alone(*_place(key.identity), bool(value))

    def _apply_alone(self, block: int, bit: int, aborted: bool) -> None:
        # the key says all that counts here: a value of a later version does as well
        before = array("H", self._alone.get(block, b""))
        if aborted == (bit in before):
            return
        if aborted:
            before.append(bit)
        else:
            before.remove(bit)
        self._stored_alone += 1 if aborted else -1
        if before:
            self._alone[block] = before.tobytes()
        else:
            del self._alone[block]

    def _apply_block(self, block: int, value: bytes | None) -> None:
        if not value:
            self._blocks.pop(block, None)
            self._unreadable.discard(block)
            return
        stored = records.decode_block(value)
        if stored is None:
            self._unreadable.add(block)
            return
        self._unreadable.discard(block)
        self._blocks[block] = stored.bitmap


class AbortedRecords:
    """The records themselves: what is to be stored for the next abort, and what each must be known for.

    Of a block's records one is under way at a time: it holds transactions of one producer, so of one transactional id,
    whose decisions are made one behind the other. What is stored for an abort that is not decided so (of a transaction
    that no record knows) must be a record of its own: two merged ones at a time could each lack what the other adds.
    """

    def __init__(self, most_alone: int = MOST_ALONE) -> None:
        self._most_alone = most_alone
        self._alone: dict[BlockKey, dict[Identity, bytes]] = {}
        self._blocks: dict[BlockKey, bytes] = {}

    def apply(self, key: AbortedKey | BlockKey, value: bytes | None) -> None:
        """A record is stored; no value deletes it."""
        if isinstance(key, BlockKey):
            if value:
                self._blocks[key] = value
            else:
                self._blocks.pop(key, None)
            return
        block, _ = records.block_of(key.identity)
        alone = self._alone.setdefault(block, {})
        if value:
            alone[key.identity] = value
        else:
            alone.pop(key.identity, None)
        if not alone:
            del self._alone[block]

    def to_store(self, identity: Identity, value: bytes) -> list[tuple[str, bytes | None]]:
        """The records that make the transaction an aborted one.

        They go into one entry in this order, with the record of the transactional id behind them. `value`: its own
        (`records.encode_aborted`).
        """
        key, _ = records.block_of(identity)
        alone = self._alone.get(key, {})
        if identity not in alone and len(alone) >= self._most_alone:
            merged = self._merged(key, {**alone, identity: value})
            if merged is not None:
                deleted: list[tuple[str, bytes | None]] = [(records.aborted_key(each), None) for each in alone]
                return [(records.block_key(key), records.encode_block(merged)), *deleted]
        return [(records.aborted_key(identity), value)]

    def __iter__(self) -> Iterator[tuple[str, AbortedRecord]]:
        """All records that can be read, with their keys: what of them is named nowhere any more can be deleted."""
        for alone in self._alone.values():
            for identity, value in alone.items():
                if record := records.decode_aborted(value):
                    yield records.aborted_key(identity), record
        for key, value in self._blocks.items():
            if record := records.decode_block(value):
                yield records.block_key(key), record

    def _merged(self, key: BlockKey, alone: Mapping[Identity, bytes]) -> AbortedRecord | None:
        """One record in place of the block's; None if one of them is of a later version."""
        values = [records.decode_aborted(value) for value in alone.values()]
        if key in self._blocks:
            values.append(records.decode_block(self._blocks[key]))
        stored = [record for record in values if record is not None]
        if len(stored) < len(values):
            return None
        bits = 0
        for identity in alone:
            bits |= 1 << records.block_of(identity)[1]
        for record in stored:
            bits |= int.from_bytes(record.bitmap, "little")
        return AbortedRecord(
            max(record.decided_ms for record in stored),
            _union(*(record.named for record in stored)),
            bits.to_bytes(BLOCK_SIZE // 8, "little"),
        )


def _place(identity: Identity) -> tuple[int, int]:
    """The packed key of a transaction's block, and its bit: `records.block_of` without the objects."""
    producer_id, epoch, n = identity
    if n:
        return (n // BLOCK_SIZE << 16 | epoch + 1) << 63 | producer_id, n % BLOCK_SIZE
    return epoch // BLOCK_SIZE << 79 | producer_id, epoch % BLOCK_SIZE


def _packed(key: BlockKey) -> int:
    return (key.block << 16 | (0 if key.epoch is None else key.epoch + 1)) << 63 | key.producer_id


def _union(*named: Named) -> Named:
    partitions: dict[tuple[str, str], Ranges] = {}
    for each in named:
        for topic, of_topic in each.partitions.items():
            partitions[topic] = union(partitions.get(topic, ()), of_topic)
    return Named(partitions, frozenset().union(*(each.groups for each in named)))
