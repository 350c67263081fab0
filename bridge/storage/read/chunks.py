"""Chunked messages: one large record in several entries (PIP-37), assembled at its last chunk.

Every chunk has an offset. The record has that of the last chunk, where native consumers receive it; the other offsets
are gaps, as in a compacted Kafka topic.

A reader may begin in the midst of a message, or have dropped the first chunks of one among many. Then they are read
again when its last one comes (`Search.earlier_chunks`): what stands between the chunks is no reason to miss the record.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry

_MAX_PARTIAL_MESSAGES = 16  # messages assembled at the same time; Pulsar's own consumers allow 10
MOST_HELD: Final = 64 * 1024 * 1024
"""Bytes of messages that are not complete, of all readers of a process."""
_READS: Final = 2
_MAX_IN_VAIN: Final = 4
"""So often in a row a reader looks in vain for the beginnings of strangers' messages: any entry may say that it is the
last chunk of one, and each look reads thousands of entries. Not counted are those whose beginning it has read."""
_MAX_EVICTED: Final = 1000
_LONG: Final = 200  # characters of a uuid: a stranger's may have millions


def is_chunk(metadata: MessageMetadata) -> bool:
    """Whether this entry is a chunk of a message."""
    return metadata.HasField("num_chunks_from_msg") and metadata.num_chunks_from_msg > 1


def is_last_chunk(metadata: MessageMetadata) -> bool:
    """Whether this entry is the last chunk of a message."""
    return is_chunk(metadata) and metadata.chunk_id + 1 == metadata.num_chunks_from_msg


class _Partial:
    """A message of which more is to come: its bytes so far, and of how many chunks they are."""

    __slots__ = ("count", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self.count = 0


class ChunkMemory:
    """What the readers of a process hold of messages that are not complete.

    Whoever may write to a topic can begin messages and never end them. Beyond `most` bytes the reader that takes more
    drops what it has waited for longest, and reads it again when its last chunk comes.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self.most = most
        self.held = 0
        self.reads = asyncio.Semaphore(_READS)
        """So many messages are read again at once: each is held whole meanwhile."""


class ChunkAssembler:
    """Collects the chunks that one reader receives, in log order.

    The bridge's own are put together from its own alone, and what came first counts: it gives no uuid twice, so a chunk
    that comes again is the same, or a stranger's copy. Of others the newest first one counts, as for Pulsar's clients.
    """

    def __init__(
        self, limit: int, is_own: Callable[[MessageMetadata], bool] = lambda _: False, memory: ChunkMemory | None = None
    ) -> None:
        """`limit`: the most bytes of all messages that are not complete, and so of one; `is_own`: whether the bridge
        has written a chunk; `memory`: what all readers together may hold."""
        self._limit = limit
        self._is_own = is_own
        self.memory = memory or ChunkMemory()
        self._size = 0
        self._partial: OrderedDict[tuple[str, bool], _Partial] = OrderedDict()
        self._evicted: OrderedDict[tuple[str, bool], None] = OrderedDict()
        """Messages whose beginning was read, and dropped for want of memory."""
        self._in_vain = 0

    def __del__(self) -> None:
        """Its reader is gone."""
        self.memory.held -= self._size

    def feed(self, entry: Entry, *, is_wanted: bool = False) -> memoryview | None:
        """Add a chunk; the last one returns the whole payload, still compressed, the others None.

        Its bytes are copied: they may be a few of much that would be held with them. `is_wanted`: the last one has
        come, and is fed next.
        """
        metadata = entry.metadata
        key = self._key(metadata)
        if metadata.chunk_id == 0 and not (key[1] and key in self._partial):
            self._drop(key)
            self._partial[key] = _Partial()
            if len(self._partial) > _MAX_PARTIAL_MESSAGES:
                self._evict_oldest()
        partial = self._partial.get(key)
        if partial is None or partial.count != metadata.chunk_id:
            # its first chunks were not read, or it was sent twice: Pulsar's own consumers drop it as well
            if partial is not None and metadata.chunk_id > partial.count:
                self._drop(key)
            return None
        partial.data += entry.payload
        partial.count += 1
        self._size += len(entry.payload)
        self.memory.held += len(entry.payload)
        self._partial.move_to_end(key)
        is_complete = is_last_chunk(metadata)
        # those that wait for the longest time first
        while self._size > self._limit or (
            self.memory.held > self.memory.most and self._partial and not is_wanted and not is_complete
        ):
            self._evict_oldest()
        if key not in self._partial or not is_complete:
            return None
        self._drop(key)
        return memoryview(partial.data)

    def lacks_earlier(self, entry: Entry) -> bool:
        """Whether a message would be complete with this entry, had it been read from its beginning."""
        metadata = entry.metadata
        if not is_last_chunk(metadata) or metadata.total_chunk_msg_size > self._limit:
            return False
        key = self._key(metadata)
        partial = self._partial.get(key)
        if partial is not None and partial.count == metadata.chunk_id:
            return False
        return key[1] or key in self._evicted or self._in_vain < _MAX_IN_VAIN

    def looked_back(self, last: Entry, found: Sequence[Entry]) -> None:
        """Take in the chunks before this last one, as far as they are still there."""
        key = self._key(last.metadata)
        if key in self._evicted:
            del self._evicted[key]
        elif not key[1]:
            self._in_vain = 0 if found else self._in_vain + 1
        for chunk in found:
            self.feed(chunk, is_wanted=True)

    def _key(self, metadata: MessageMetadata) -> tuple[str, bool]:
        uuid = metadata.uuid
        return uuid if len(uuid) <= _LONG else str(hash(uuid)), self._is_own(metadata)

    def _evict_oldest(self) -> None:
        key = next(iter(self._partial))
        self._drop(key)
        self._evicted[key] = None
        if len(self._evicted) > _MAX_EVICTED:
            self._evicted.popitem(last=False)

    def _drop(self, key: tuple[str, bool]) -> None:
        partial = self._partial.pop(key, None)
        if partial is not None:
            self._size -= len(partial.data)
            self.memory.held -= len(partial.data)
