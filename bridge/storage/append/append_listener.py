"""What the appender of a partition reports to the partition's log."""

from typing import Protocol

from bridge.pulsar.types import Entry, Position


class AppendListener(Protocol):
    """What an appender reports to its partition's log."""

    def on_appended(self, base: int, entry: Entry) -> None:
        """Pulsar has stored this entry. No client and no waiter learns of it before this returns."""

    def on_stored(self, base: int, position: Position) -> None:
        """An entry of this process begins with this offset; called for the first, and then for some."""

    def on_foreign_writers(self) -> None:
        """Others write here so often that a reader at the tail costs less than reading entries back."""

    def on_recreated(self) -> None:
        """The offsets show that this is another topic of the same name."""
