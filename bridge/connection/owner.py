"""What a client's connection asks of its listener."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from bridge.connection.budget import Budget
from bridge.connection.environment import Environment
from bridge.connection.responses import PendingResponseBytes
from bridge.connection.runner import RequestRunner
from bridge.connection.shared import SharedResources
from bridge.security.principal import Principal
from bridge.security.sasl.login import Login

_C = TypeVar("_C", contravariant=True)
"""A connection."""


class Owner(Environment, Protocol[_C]):
    """The listener: what its connections share, and what it counts of them."""

    name: str
    budget: Budget
    pending_bytes: PendingResponseBytes
    scratch: memoryview
    runner: type[RequestRunner]
    shared: SharedResources

    def login(self, logged_in: Callable[[], None]) -> Login | None:
        """The log-in of a new connection, None where none is asked for; `logged_in` is called when it has succeeded."""

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal:
        """Whom a new connection acts for, until it logs in."""

    def admit(self, connection: _C) -> bool:
        """Take the connection in; False when there are too many."""

    def closed(self, connection: _C) -> None:
        """The connection's socket is gone."""

    def forget(self, connection: _C) -> None:
        """The connection's last request is done, too."""

    def show_paused(self, connection: _C, paused: bool) -> None:
        """Count the connection as not read, or not."""
