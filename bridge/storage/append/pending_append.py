"""One append on its way to its offset, and the order in which a producer's appends are answered."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bridge.pulsar.producer import Send
from bridge.pulsar.types import ClientClosed, Position, Receipt
from bridge.runtime.futures import Outcome, failed
from bridge.storage.append.preparation import PreparedEntry
from bridge.storage.append.sequences import SequenceRange
from bridge.storage.error_mapping import translate


class Member(Protocol):
    """One of the appends that an entry of Pulsar holds."""

    entry: PreparedEntry

    @property
    def batch(self) -> SequenceRange | None:
        """Its place among those of an idempotent producer; None of any other."""

    @property
    def is_wanted(self) -> bool:
        """Whether a client waits for its offset."""

    def sent(self, give_up: Callable[[], None]) -> None:
        """The entry is on its way; `give_up` is to be called when the client waits no more."""

    def drop_data(self) -> None:
        """Pulsar holds it."""

    def succeed(self, base: int) -> None:
        """It is stored, from this offset on."""

    def fail(self, error: BaseException) -> None:
        """It has no offset."""


@dataclass(slots=True)
class PendingAppend:
    """An entry that is sent, and the futures of its offset."""

    entry: PreparedEntry
    producer: str  # the Pulsar producer's name
    last_known: Position  # the last position known when it was sent
    offset: Outcome[int]
    client_future: Outcome[int]  # what the client waits for: `offset`, or another that it alone may cancel
    previous_answer: asyncio.Future[int] | None  # the client's future of the batch before, unless that has its offset
    batch: SequenceRange | None = None  # of an idempotent producer
    members: Sequence[Member] = ()  # the appends that this entry holds, unless it is one
    send: Send = field(init=False)
    receipt: Receipt | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether a client waits for its offset; an idempotent producer's batch is wanted even so."""
        if self.batch is not None:
            return True
        return any(one.is_wanted for one in self.members) if self.members else not self.offset.cancelled()

    def sent(self, give_up: Callable[[], None]) -> None:
        """As `Member.sent`: cancelling its offset says that the client waits no more."""
        self.offset.call_at_once(lambda offset: give_up() if offset.cancelled() else None)

    def drop_data(self) -> None:
        """Only its offset is looked for, which may take long."""
        self.entry = self.entry._replace(data=b"", reservation=None)
        for one in self.members:
            one.drop_data()

    def succeed(self, base: int) -> None:
        """Tell who waits for the offset, each one for its own."""
        if not self.offset.done():
            self.offset.set_result(base)
        complete_in_order(self.client_future, base, self.previous_answer)
        for one in self.members:
            one.succeed(base)
            base += one.entry.record_count

    def fail(self, error: BaseException) -> None:
        """Tell who waits for the offset that there is none."""
        for future in (self.offset, self.client_future):
            if not future.done():
                future.set_exception(translate(error))
        for one in self.members:
            one.fail(error)


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


def fail_if_cancelled(pending: PendingAppend, looking: "asyncio.Task[None]") -> None:
    """The partition is closed while the offset of what is stored is looked for: who waits for it is told."""
    if looking.cancelled():
        pending.fail(ClientClosed("the partition"))


def cancel_if_cancelled(looking: "asyncio.Task[None]", offset: "asyncio.Future[int]") -> None:
    """No client wants the offset of what is stored any more."""
    if offset.cancelled():
        looking.cancel()
