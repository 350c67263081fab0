"""Makes the batches of entries that have offsets, as nearly all have."""

from bridge.pulsar.types import Entry
from bridge.storage.read import batches
from bridge.storage.read.batches import Batch


class BatchMaker(batches.BatchMaker):
    """What fails where an entry has none."""

    def make(self, entry: Entry) -> Batch:
        return _made(super().make(entry))

    def make_single(self, entry: Entry) -> Batch:
        return _made(super().make_single(entry))


def _made(batch: Batch | None) -> Batch:
    assert batch is not None, "it has no offset"
    return batch
