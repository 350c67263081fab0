"""The aborted transactions of a slot: which they are, on every node; what is stored of them, at the slot's holder.

Only these need a record of their own: what is below its transactional id's record, and not among them, was committed.
They are stored alone (`a/`) or by blocks (`A/`). A transaction is aborted if either says so. A record that takes the
place of others is written ahead of their deletion, in the same entry. So at no place of the log is one missing.
"""

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.ranges import Ranges, union
from bridge.transactions.records import BLOCK_SIZE, AbortedKey, AbortedRecord, BlockKey, Named

MOST_ALONE: Final = 8
"""So many of a block are stored alone."""
_MOST_MERGED: Final = 512
_MOST_BLOCK_BYTES: Final = 128 * 1024
"""Of a block's record. A larger one may not fit into an entry together with the decision, which then could never be
stored: so what names so much stays alone."""
_MOST_MERGED_BYTES: Final = 2 * _MOST_BLOCK_BYTES
"""Of what is read to merge a block, in one turn of the event loop; what is named several times is read once."""
_ALONE: Final = Struct("<HQQ")


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

    Most of them differ only in whose they are and when they were decided, so what they name is held once.
    """

    def __init__(self, most_alone: int = MOST_ALONE) -> None:
        self._most_alone = most_alone
        self._alone: dict[int, bytes] = {}
        """By block, those that are stored alone: bit, time of the decision, and number of what is named (`_ALONE`)."""
        self._blocks: dict[int, bytes] = {}
        self._names = _Shared()

    def apply(self, key: AbortedKey | BlockKey, value: bytes | None) -> None:
        """A record is stored; no value deletes it."""
        if isinstance(key, BlockKey):
            if value:
                self._blocks[_packed(key)] = value
            else:
                self._blocks.pop(_packed(key), None)
            return
        block, bit = _place(key.identity)
        kept = b""
        for one in _ALONE.iter_unpack(self._alone.get(block, b"")):
            if one[0] == bit:
                self._names.release(one[2])
            else:
                kept += _ALONE.pack(*one)
        if value:
            decided_ms, named = records.split_aborted(value)
            kept += _ALONE.pack(bit, decided_ms, self._names.take(named))
        if kept:
            self._alone[block] = kept
        else:
            self._alone.pop(block, None)

    def to_store(self, identity: Identity, value: bytes) -> list[tuple[str, bytes | None]]:
        """The records that make the transaction an aborted one.

        They go into one entry in this order, with the record of the transactional id behind them. `value`: its own
        (`records.encode_aborted`).
        """
        key, bit = records.block_of(identity)
        alone = list(_ALONE.iter_unpack(self._alone.get(_packed(key), b"")))
        if self._may_merge(len(alone)) and all(one[0] != bit for one in alone):
            merged = self._merged(key, alone, bit, value)
            block = None if merged is None else records.encode_block(merged)
            if block is not None and len(block) <= _MOST_BLOCK_BYTES:
                before = [records.aborted_key(key.identity(one[0])) for one in alone]
                deleted: list[tuple[str, bytes | None]] = [(each, None) for each in before]
                return [(records.block_key(key), block), *deleted]
        return [(records.aborted_key(identity), value)]

    def value(self, key: AbortedKey | BlockKey) -> bytes | None:
        """What is stored of a key."""
        if isinstance(key, BlockKey):
            return self._blocks.get(_packed(key))
        block, bit = _place(key.identity)
        for one in _ALONE.iter_unpack(self._alone.get(block, b"")):
            if one[0] == bit:
                return records.joined_aborted(one[1], self._names[one[2]])
        return None

    def __iter__(self) -> Iterator[tuple[AbortedKey | BlockKey, bytes]]:
        """All keys with their values, as they are when one looks; those that come meanwhile may be left out.

        Each value is made when it is its turn: together they may be a thousand times what is held.
        """
        for block in list(self._alone):
            key, data = _block_key(block), self._alone.get(block, b"")
            for bit, decided_ms, number in _ALONE.iter_unpack(data):
                alone = AbortedKey(key.identity(bit))
                is_as_it_was = self._alone.get(block) is data  # else the names may be gone, or others
                value = records.joined_aborted(decided_ms, self._names[number]) if is_as_it_was else self.value(alone)
                if value is not None:
                    yield alone, value
        for block in list(self._blocks):
            of_block = self._blocks.get(block)
            if of_block is not None:
                yield _block_key(block), of_block

    def _may_merge(self, alone: int) -> bool:
        """Whether to merge so many that are stored alone: where that has failed, not again for each one more."""
        return self._most_alone <= alone <= _MOST_MERGED and not alone % max(self._most_alone, 1)

    def _merged(
        self, key: BlockKey, alone: Sequence[tuple[int, int, int]], bit: int, value: bytes
    ) -> AbortedRecord | None:
        """One record in place of the block's and of those that are stored alone, with another one that has this bit and
        value; None if one of them is of a later version, or they name too much to be read at once."""
        latest: dict[bytes, int] = {}
        decided_ms, named = records.split_aborted(value)
        for each_ms, each in [(decided_ms, named), *((one[1], self._names[one[2]]) for one in alone)]:
            latest[each] = max(each_ms, latest.get(each, 0))
        if sum(map(len, latest)) > _MOST_MERGED_BYTES:
            return None
        values = [records.decode_aborted(records.joined_aborted(at, each)) for each, at in latest.items()]
        before = self._blocks.get(_packed(key))
        if before is not None:
            values.append(records.decode_block(before))
        stored = [record for record in values if record is not None]
        if len(stored) < len(values):
            return None
        bits = 1 << bit
        for one in alone:
            bits |= 1 << one[0]
        for record in stored:
            bits |= int.from_bytes(record.bitmap, "little")
        return AbortedRecord(
            max(record.decided_ms for record in stored),
            _union(*(record.named for record in stored)),
            bits.to_bytes(BLOCK_SIZE // 8, "little"),
        )


class _Shared:
    """Bytes that many hold, each once, by a number."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._held: dict[int, tuple[bytes, int]] = {}
        """By number: the bytes, and how many hold them."""
        self._last = 0

    def __getitem__(self, number: int) -> bytes:
        return self._held[number][0]

    def take(self, data: bytes) -> int:
        """The number of these bytes, held once more."""
        number = self._numbers.get(data)
        if number is None:
            self._last += 1
            number = self._numbers[data] = self._last
            self._held[number] = data, 1
        else:
            data, holders = self._held[number]
            self._held[number] = data, holders + 1
        return number

    def release(self, number: int) -> None:
        """Held once less."""
        data, holders = self._held[number]
        if holders > 1:
            self._held[number] = data, holders - 1
        else:
            del self._held[number], self._numbers[data]


def _place(identity: Identity) -> tuple[int, int]:
    """The packed key of a transaction's block, and its bit: `records.block_of` without the objects."""
    producer_id, epoch, n = identity
    if n:
        return (n // BLOCK_SIZE << 16 | epoch + 1) << 63 | producer_id, n % BLOCK_SIZE
    return epoch // BLOCK_SIZE << 79 | producer_id, epoch % BLOCK_SIZE


def _packed(key: BlockKey) -> int:
    return (key.block << 16 | (0 if key.epoch is None else key.epoch + 1)) << 63 | key.producer_id


def _block_key(packed: int) -> BlockKey:
    """The other way round."""
    epoch, block = (packed >> 63) & 0xFFFF, packed >> 79
    return BlockKey(packed & (1 << 63) - 1, epoch - 1 if epoch else None, block)


def _union(*named: Named) -> Named:
    partitions: dict[tuple[str, str], Ranges] = {}
    for each in named:
        for topic, of_topic in each.partitions.items():
            partitions[topic] = union(partitions.get(topic, ()), of_topic)
    return Named(partitions, frozenset().union(*(each.groups for each in named)))
