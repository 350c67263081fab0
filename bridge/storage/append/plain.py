"""Prepares the one sound and uncompressed batch that nearly all clients send, in one call of the codec.

Anything else, whatever it is, is left to `preparation`, which says what is wrong with it, or does what it needs.
"""

from bridge import codec
from bridge.codec import NO_LIMIT
from bridge.storage.append.preparation import MAX_LOOP_BYTES, MAX_LOOP_RECORDS, Plan, PreparedEntry
from bridge.storage.visibility import Transaction


def prepare_plain(
    records: memoryview, plan: Plan, now: int, transaction: Transaction | None = None
) -> PreparedEntry | None:
    """The entry that one plain batch becomes, as `preparation.prepare_records` would make it; None for all else.

    `now`: the time in ms by which the records' timestamps are judged; `transaction`: whose the batch is, if it says
    that it is of one.
    """
    limit = plan.max_batch_bytes
    if plan.decides or len(records) > MAX_LOOP_BYTES or (limit is not None and len(records) > limit):
        return None
    oldest, newest = now - plan.before_max_ms, min(now + plan.after_max_ms, NO_LIMIT)
    made = codec.encode_plain(records, plan.largest_entry, oldest, newest, MAX_LOOP_RECORDS)
    if made is None:
        return None
    data, count, producer, max_timestamp, escaped, transactional = made
    if not transactional:
        transaction = None
    elif transaction is None:
        return None
    return PreparedEntry(
        data, count, producer, max_timestamp, escaped, uncompressed_size=len(data), transaction=transaction
    )
