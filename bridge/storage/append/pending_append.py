"""One append on its way to its offset, and the order in which a producer's appends are answered."""

import asyncio
from dataclasses import dataclass, field

from bridge.futures import failed
from bridge.pulsar.producer import Send
from bridge.pulsar.types import Position, Receipt
from bridge.storage.append.preparation import PreparedEntry


@dataclass(slots=True)
class PendingAppend:
    """An entry that is sent, and the futures of its offset."""

    entry: PreparedEntry
    producer: str  # the Pulsar producer's name
    last_known: Position  # the last position known when it was sent
    offset: asyncio.Future[int]
    client_future: asyncio.Future[int]  # what the client waits for: `offset`, or another that it alone may cancel
    previous_answer: asyncio.Future[int] | None  # the client's future of the batch before, unless that has its offset
    send: Send = field(init=False)
    receipt: Receipt | None = None


def complete_in_order(answer: "asyncio.Future[int]", base: int, before: "asyncio.Future[int] | None") -> None:
    """Give a client's future its offset once the batch before has one; cancel it if that batch has failed.

    Clients take the success of a batch for that of all before it: librdkafka reports those as delivered, without their
    offsets. After a cancellation the client sends the batch again with the others, and it is found.
    """
    if answer.done():
        return
    if before is None:
        answer.set_result(base)
    elif not before.done():
        before.add_done_callback(lambda before: complete_in_order(answer, base, before))
    elif failed(before):
        answer.cancel()
    else:
        answer.set_result(base)
