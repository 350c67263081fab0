"""What a producer waits for before it opens: its predecessor, its topic, and leave to send."""

import asyncio
from typing import Final

from bridge.pulsar.connection.lookup import Lookup, TopicExistenceCheck
from bridge.pulsar.types import AccessMode

# Seconds before a producer that the broker has closed comes back: a topic that is being deleted closes its producers
# first, and is still found for a moment.
_REOPEN_DELAY_SECONDS: Final = 0.1
# An exclusive one may have been closed to let another in, which is to come first.
_REOPEN_EXCLUSIVE_DELAY_SECONDS: Final = 0.25


class Opening:
    """One producer's."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        name_is_free: "asyncio.Future[None] | None",
        may_send: asyncio.Event | None,
        *,
        must_exist: bool,
        mode: AccessMode = AccessMode.SHARED,
    ) -> None:
        """`name_is_free` tells when the one that had the name before has left; the rest is as `Producer` is told."""
        self._name_is_free = name_is_free
        self._must_exist = must_exist
        self._delay = _REOPEN_DELAY_SECONDS if mode is AccessMode.SHARED else _REOPEN_EXCLUSIVE_DELAY_SECONDS
        self._existence = TopicExistenceCheck(lookup, topic)
        self._may_send = may_send

    async def wait_for_predecessor(self) -> None:
        """Wait until the broker holds nothing for the one that had the name before."""
        if self._name_is_free is not None:
            await asyncio.wait((self._name_is_free,))
            self._name_is_free = None

    async def wait(self, *, again: bool) -> None:
        """Wait for what has to be before the look-up; `again`: it was open before."""
        if self._must_exist and again:
            await asyncio.sleep(self._delay)
        await self.allowed()

    async def check_topic(self) -> None:
        """Raise PulsarError where it must not be opened: that would create a topic."""
        if self._must_exist:
            await self._existence.check()

    async def allowed(self) -> None:
        """Wait until it may send; what waits is sent as soon as it is open."""
        if self._may_send is not None:
            await self._may_send.wait()
