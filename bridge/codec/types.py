"""What both codec twins take and give."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

Header: TypeAlias = tuple[bytes, bytes | None]

HEADER_SIZE = 61
NO_TIMESTAMP = -1
NO_PRODUCER = (-1, -1, -1)
TRANSACTIONAL, CONTROL = 0x10, 0x20
"""Attributes of batches of a transaction, and of what only brokers write (KIP-98)."""
NO_LIMIT = (1 << 63) - 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of a batch v2, field by field in wire order (KIP-98)."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


class Payload(NamedTuple):
    """A Pulsar batch payload made of Kafka records, with what the entry's metadata must say of it.

    `max_timestamp` and `min_timestamp` as in `Checked`; `escaped`: some header could not be plain text, see
    `codec._messages`; `records` and `read`: how many records it holds, of how many bytes.
    """

    data: bytes
    max_timestamp: int
    min_timestamp: int
    escaped: bool
    records: int
    read: int


class Plain(NamedTuple):
    """The payload that one whole batch becomes where there is nothing to decide about it.

    `producer`: (id, epoch, base sequence); `max_timestamp` and `escaped` as in `Payload`; `transactional`: whether it
    says that it is of a transaction.
    """

    data: bytes
    records: int
    producer: tuple[int, int, int]
    max_timestamp: int
    escaped: bool
    transactional: bool


class Checked(NamedTuple):
    """What a batch's records say: the newest timestamp in ms, the oldest, and whether every one has a key.

    `min_timestamp` is that of the records that have one: 2⁶³ − 1 where none has.
    """

    max_timestamp: int
    min_timestamp: int
    keyed: bool


class Record(NamedTuple):
    """One record of a Kafka batch; `timestamp` in ms, −1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class Rebuild(NamedTuple):
    """How the messages of one stored entry become a Kafka batch.

    `base_offset` and `span`: the offsets the entry takes; `own`: the bridge wrote it, so that a message without
    event time has no timestamp and event time 0 is 0, where other writers mean `publish_time`;
    `escaped`: as in `Payload`; `producer`: (id, epoch, base sequence); `attributes`: the batch's.
    """

    base_offset: int
    span: int
    publish_time: int
    own: bool = False
    escaped: bool = False
    producer: tuple[int, int, int] = NO_PRODUCER
    attributes: int = 0


class Twin(Protocol):
    """What each twin is: a module with these functions, described in `codec._python`."""

    def read_header(self, batch: bytes | memoryview) -> BatchHeader: ...  # noqa: D102
    def encode_payload(  # noqa: D102
        self, records: bytes | memoryview, count: int, base_timestamp: int, first: int = 0, limit: int = NO_LIMIT
    ) -> Payload: ...
    def encode_plain(  # noqa: D102
        self, batch: bytes | memoryview, limit: int, oldest: int, newest: int, max_records: int
    ) -> Plain | None: ...
    def check_records(self, records: bytes | memoryview, count: int, base_timestamp: int) -> Checked: ...  # noqa: D102
    def decode_payload(self, payload: bytes | memoryview, count: int, rebuild: Rebuild) -> bytes: ...  # noqa: D102
    def build_batch(self, records: Sequence[Record], rebuild: Rebuild) -> bytes: ...  # noqa: D102
    def read_records(self, batch: bytes | memoryview, records: bytes | None = None) -> list[Record]: ...  # noqa: D102
    def crc32c(self, data: bytes | bytearray | memoryview, value: int = 0) -> int: ...  # noqa: D102
