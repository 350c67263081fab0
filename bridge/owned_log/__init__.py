"""State kept in a compacted Pulsar topic; each of its partitions is owned by one process.

A record has a string key and a value of bytes; no value deletes the key. A partition is called a slot. Its owner is the
process that has its exclusive producer. `OwnedLog` takes slots, reads them, writes to them and loses them. What the
records mean is its caller's (`OwnedState`).

Promised:

1. Order. The records of a slot are stored, and applied to the state, in the order of the calls of `write`.
2. Acknowledged is stored. A write is done when Pulsar has acknowledged all its records, and they have been applied to
   the state before. The state never shows more than what Pulsar has acknowledged.
3. A new owner misses nothing. It fences its predecessor, writes a marker and reads up to it. What a predecessor stored
   lies before the marker; after it a fenced producer can store nothing. Until then the slot is loading.
4. A lost slot is forgotten. When the producer ends, or an entry of another producer is read, the state is reset, `lost`
   is called, and writes under way fail. A process that was fenced takes the slot again when it is free, and fences
   nothing.
5. Compaction drops no last value of a key. The log asks for it by the number of records written, and its cursor keeps
   what is not compacted past any retention.
6. Bounds. A request waits 3 seconds for its slot; a write fails after 5 seconds without a receipt; writes are refused
   while too much waits. A broker that stops answering does not stop the event loop or fill the memory.

Not promised:

1. That a write that failed is not stored. It may be, in whole or in part, before anything that is written later.
2. That records of one write are stored together. Above an entry's limit they go into several entries, in order.
3. That an owner knows at once that it was fenced. It learns it from its next send or from the new owner's marker. Until
   then its state may be older than what the new owner has acknowledged; none of its own writes is acknowledged.
4. One owner when two processes fence at the same moment: Pulsar may grant both. No acknowledged record is lost. But for
   a moment one of them may show state that is older than what the other has acknowledged. A cluster of several nodes
   has to handle that itself.
"""

from bridge.owned_log.batch import Record
from bridge.owned_log.dependencies import OwnedLogMetrics, OwnedState
from bridge.owned_log.errors import (
    OwnedLogError,
    RecordTooLarge,
    SlotLoading,
    SlotNotOwned,
    SlotUnavailable,
    WriteTimedOut,
)
from bridge.owned_log.owned_log import OwnedLog

__all__ = [
    "OwnedLog",
    "OwnedLogError",
    "OwnedLogMetrics",
    "OwnedState",
    "Record",
    "RecordTooLarge",
    "SlotLoading",
    "SlotNotOwned",
    "SlotUnavailable",
    "WriteTimedOut",
]
