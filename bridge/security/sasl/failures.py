"""How many log-ins of an address may fail: one that guesses passwords is turned away, and cannot keep others waiting.

Failures alone count, so many clients of one address may log in at once. An address that has failed too often is blocked
until its failures have been worn off by time, at the rate that is allowed: a few seconds after it has stopped.
"""

import ipaddress
from collections import OrderedDict
from typing import Final

BURST: Final = 20
"""Failures at once: clients that all have the same wrong password."""
_LONGEST_SECONDS: Final = 3.0
"""An address is blocked for so long at most after its last failure, for others may share it."""
_MAX_ADDRESSES: Final = 20_000
_NETWORK_BITS: Final = 64
"""Of an IPv6 address: who has one has all of its network."""


class LoginFailures:
    """The failed log-ins of one process, by address; times are the event loop's."""

    def __init__(self, per_second: float) -> None:
        """`per_second`: 0 for any number."""
        self._seconds = 1 / per_second if per_second > 0 else 0.0
        self._worn_off_at: OrderedDict[str, float] = OrderedDict()

    def failed(self, address: str, now: float) -> bool:
        """A log-in has failed; whether the address is blocked from now on, and was not before."""
        if not self._seconds:
            return False
        key = network_of(address)
        before = self._worn_off_at.pop(key, now)
        most = now + BURST * self._seconds + _LONGEST_SECONDS
        self._worn_off_at[key] = after = min(max(before, now) + self._seconds, most)
        if len(self._worn_off_at) > _MAX_ADDRESSES:
            self._worn_off_at.popitem(last=False)
        return not self._is_above(before, now) and self._is_above(after, now)

    def is_blocked(self, address: str, now: float) -> bool:
        """Whether its log-ins are not to be looked at now."""
        if not self._worn_off_at:
            return False
        key = network_of(address)
        worn_off_at = self._worn_off_at.get(key)
        if worn_off_at is None:
            return False
        if worn_off_at <= now:
            del self._worn_off_at[key]
            return False
        return self._is_above(worn_off_at, now)

    def _is_above(self, worn_off_at: float, now: float) -> bool:
        return worn_off_at - now > (BURST - 0.5) * self._seconds


def network_of(address: str) -> str:
    """What counts as one address: of IPv6 all that a client of it has."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _NETWORK_BITS), strict=False).network_address)
