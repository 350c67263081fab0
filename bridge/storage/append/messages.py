"""A record that no batch entry of Pulsar holds: one message, in as many chunks as it needs (PIP-37).

Native consumers put the chunks together, and get the record whole: a message that is no batch has its key, its headers
and its time in the entry's metadata. Each chunk repeats the key, by which consumers that share keys are chosen; the
headers stand in the last one, which is the record's place in the log.
"""

from typing import NamedTuple

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata


class Chunk(NamedTuple):
    """Which piece of a message an entry holds."""

    uuid: str
    number: int
    """From 0 on."""
    of: int
    """How many there are."""
    total: int
    """The bytes of the whole message, as it is stored."""

    @property
    def is_last(self) -> bool:
        """Whether the message is complete with it."""
        return self.number + 1 == self.of


class Message(NamedTuple):
    """What is said of one record in its entry's metadata."""

    single: SingleMessageMetadata
    """What would stand before it in a batch."""
    room: int
    """The most bytes of it that an entry holds."""
    chunk: Chunk | None = None
    """None: it is whole."""

    def describe(self, metadata: MessageMetadata) -> None:
        """Say all of it but the headers."""
        single, chunk = self.single, self.chunk
        if single.HasField("partition_key"):
            metadata.partition_key = single.partition_key
            metadata.partition_key_b64_encoded = single.partition_key_b64_encoded
        if single.HasField("event_time"):
            metadata.event_time = single.event_time
        if single.null_value:
            metadata.null_value = True
        if chunk is not None:
            metadata.uuid, metadata.chunk_id = chunk.uuid, chunk.number
            metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = chunk.of, chunk.total

    def add_headers(self, metadata: MessageMetadata) -> None:
        """Add the headers, behind what the bridge says itself."""
        if self.chunk is None or self.chunk.is_last:
            metadata.properties.extend(self.single.properties)
