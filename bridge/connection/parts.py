"""Small things a connection is made with."""

import asyncio
from typing import Any


class Refused(Exception):
    """The connection must be closed; `reason` is one of `metrics.REJECTION_REASONS`."""

    def __init__(self, reason: str, **fields: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fields = fields


def cancelled_from_outside() -> bool:
    """Whether this task is being cancelled, not just something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def address_of(name: Any) -> str:
    """A socket's peer in words."""
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
    return str(name or "")
