"""State kept in a compacted Pulsar topic; each of its partitions is owned by one process.

A record has a string key and a value of bytes; no value deletes the key. A partition is called a slot. Its owner is the
process that has its exclusive producer. `OwnedLog` takes the slots that it is assigned, reads them, writes to them, and
loses or releases them. What the records mean is its caller's (`OwnedState`), and so is who is assigned what.

Promised:

1. Order. The records of a slot are stored, and applied to the state, in the order of the calls of `write` and `store`.
2. Acknowledged is stored, and counts. A write is done when Pulsar has acknowledged all its records, no other holder's
   marker lies between the own marker and them, and they have been applied to the state. The state never shows more.
3. One owner. A slot is taken as Exclusive, which Pulsar grants to one producer at a time, never by fencing, which it
   may grant to two. A holder that has left the cluster and does not let go is thrown out by unloading the topic.
4. A new owner misses nothing. It writes a marker and reads up to it. What a predecessor stored lies before the marker.
   Until then the slot is loading.
5. A lost slot is forgotten. When the producer ends, or another holder's marker is read, the state is reset, `lost` is
   called, and writes under way fail. A slot that is released refuses requests at once; writes under way are stored.
6. Nothing old is shown after `confirm`: all that any process had acknowledged before the call is in the state. A
   process that was frozen may believe for a moment that it owns a slot; `confirm` asks Pulsar for the slot's end.
7. Entries behind another holder's marker count for no reader.
8. Compaction drops no last value of a key. The log asks for it by the number of records written, and its cursor keeps
   what is not compacted past any retention.
9. Bounds. A request waits 3 seconds for its slot; a write fails after 5 seconds without a receipt; writes are refused
   while too much waits. A broker that stops answering does not stop the event loop or fill the memory.
10. Together. The records of one `store` are stored in one entry or not at all. Its `settled` is done when it is known
    which: they are stored and applied; they are not and never will be; or the slot is lost, and its next owner reads
    what is. A slot in which nothing else can tell is given up.
11. A deletion lasts. A slot is read again where a compaction has ended meanwhile: it may have dropped a deletion that
    was not read yet, of a record that was.
12. A follower shows a prefix. A process that does not own a slot can follow it (`Follower`). Its copy is what the slot
    held at some moment, by the rules of every reader: it has all entries up to one. Where one may be missing, nothing
    more is applied until a fresh copy is complete. `confirm` returns when all is in it that was acknowledged before.

Not promised:

1. That a write that failed is not stored. It may be, in whole or in part, before anything that is written later.
2. That records of one `write` are stored together. Above an entry's limit they go into several entries, in order.
3. That an owner knows at once that it lost the slot. It learns it from its next send, `confirm` or the new owner's
   marker. Until then its state may be old; none of its own writes is acknowledged.
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
from bridge.owned_log.follower import Copy, Follower
from bridge.owned_log.journal import Stored
from bridge.owned_log.owned_log import UNFINISHED, OwnedLog, create_log

__all__ = [
    "UNFINISHED",
    "Copy",
    "Follower",
    "OwnedLog",
    "OwnedLogError",
    "OwnedLogMetrics",
    "OwnedState",
    "Record",
    "RecordTooLarge",
    "SlotLoading",
    "SlotNotOwned",
    "SlotUnavailable",
    "Stored",
    "WriteTimedOut",
    "create_log",
]
