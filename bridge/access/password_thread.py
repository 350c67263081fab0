"""The thread that hashes the passwords of clients: addresses take turns, and a blocked one gets none.

A thousand connections of an address may ask at the same moment, before one of them has failed. Each hash takes
milliseconds. So one address waits behind its own guesses, and those that are left when it is blocked are not looked at.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

from bridge.runtime.scheduler import REQUESTER, LoopShare
from bridge.runtime.threads import WorkerThreads


class AddressBlocked(Exception):
    """Too many log-ins of the client's address have failed while it waited."""


_IS_BLOCKED: ContextVar[Callable[[], bool]] = ContextVar("is_blocked", default=lambda: False)
_of_addresses: WeakValueDictionary[str, LoopShare] = WeakValueDictionary()
"""Who asks, by address: all connections of one take turns as one, also those that have logged in."""


@contextmanager
def attempt_of(address: str, is_blocked: Callable[[], bool]) -> Iterator[None]:
    """What waits for the thread inside waits for this address. `is_blocked` is asked when its turn has come."""
    share = _of_addresses.setdefault(address, LoopShare())
    requester, asked = REQUESTER.set(share), _IS_BLOCKED.set(is_blocked)
    try:
        yield
    finally:
        _IS_BLOCKED.reset(asked)
        REQUESTER.reset(requester)


class PasswordThread:
    """A process's one thread for hashing passwords."""

    def __init__(self) -> None:
        self._threads = WorkerThreads(1, on_turn=_refuse_blocked)

    async def run(self, work: Callable[[], bool]) -> bool:
        """What `work` returns; AddressBlocked where it was not begun."""
        return await self._threads.run(work)


def _refuse_blocked() -> None:
    if _IS_BLOCKED.get()():
        raise AddressBlocked
