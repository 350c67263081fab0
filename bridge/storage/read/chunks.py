"""Chunked messages: one large native message in several entries (PIP-37), assembled at its last chunk.

Every chunk has an offset. The record has that of the last chunk, where native consumers receive it; the other offsets
are gaps, as in a compacted Kafka topic.
"""

from collections import OrderedDict

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry

_MAX_PARTIAL_MESSAGES = 16  # messages assembled at the same time; Pulsar's own consumers allow 10


def is_chunk(metadata: MessageMetadata) -> bool:
    """Whether this entry is a chunk of a message."""
    return metadata.HasField("num_chunks_from_msg") and metadata.num_chunks_from_msg > 1


class ChunkAssembler:
    """Collects the chunks that one reader receives, in log order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial: OrderedDict[str, list[memoryview]] = OrderedDict()

    def feed(self, entry: Entry) -> bytes | None:
        """Add a chunk; the last one returns the whole payload, still compressed, the others None."""
        metadata = entry.metadata
        if metadata.chunk_id == 0:
            self._partial[metadata.uuid] = []
            if len(self._partial) > _MAX_PARTIAL_MESSAGES:
                self._partial.popitem(last=False)
        pieces = self._partial.get(metadata.uuid)
        if pieces is None or len(pieces) != metadata.chunk_id:
            # its first chunks were not read, or it was sent twice: Pulsar's own consumers drop it as well
            if pieces is not None and metadata.chunk_id > len(pieces):
                del self._partial[metadata.uuid]
            return None
        pieces.append(entry.payload)
        if sum(map(len, pieces)) > self._limit:
            del self._partial[metadata.uuid]
            return None
        if metadata.chunk_id + 1 < metadata.num_chunks_from_msg:
            return None
        return b"".join(self._partial.pop(metadata.uuid))

    def has_earlier_chunks(self, entry: Entry) -> bool:
        """Whether all chunks before this one were added, so that its message can be assembled."""
        return entry.metadata.chunk_id == 0 or entry.metadata.uuid in self._partial
