"""A thread for each node, which asks it over and over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tests.support.nodes import Node

_JOIN_SECONDS = 60.0


class NodeThreads:
    """Threads that run until `finish`."""

    def __init__(self, what: str, run: Callable[[Node], None]) -> None:
        """`run` returns soon after `pause` has said that it is over."""
        self._what = what
        self._run = run
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, nodes: Sequence[Node]) -> None:
        """Ask each of them from now on: one that is frozen holds up no other, one that is down may come."""
        for node in nodes:
            thread = threading.Thread(target=self._run, args=(node,), name=f"{self._what} {node.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def pause(self, seconds: float) -> bool:
        """Wait so long; whether it is over."""
        return self._ended.wait(seconds)

    def finish(self) -> None:
        """Ask no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
