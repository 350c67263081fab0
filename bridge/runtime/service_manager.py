"""What systemd is told of a service of `Type=notify`: sd_notify(3)."""

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"

_VARIABLE: Final = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Tell it to who started this process and wants to know; nothing where nobody does."""
    where = os.environ.get(_VARIABLE, "")
    if where:
        address = f"\0{where[1:]}" if where.startswith("@") else where
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, suppress(OSError):
            told.sendto(state.encode(), address)


def forget() -> None:
    """Tell it nothing from this process."""
    os.environ.pop(_VARIABLE, None)
