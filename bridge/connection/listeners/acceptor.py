"""Accepts the clients of a listening socket, a few per iteration of the event loop, so that a thousand that connect at
once do not hold up those that are connected."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from bridge.connection.parts import address_of
from bridge.connection.strangers import StrangerPlace, Strangers
from bridge.security.quotas.usage import ClientQuotas
from bridge.telemetry import log

MAX_TURNED_AWAY = 1000
"""Connections of addresses above their rate that wait to be closed: more are closed at once."""
MAX_ACCEPTS = 8
"""Taken in per iteration of the event loop: a millisecond."""
ACCEPT_SECONDS = 0.0005
"""Of one iteration for all others, which are closed or wait: a connection costs a fiftieth of a millisecond then."""
_PAUSE_SECONDS = 1.0
_log = log.get(__name__)


class Acceptor:
    """Owns a listening socket and accepts its clients."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[..., asyncio.BaseProtocol],
        is_behind: Callable[[], bool] = lambda: False,
        quotas: ClientQuotas | None = None,
        is_turned_away: Callable[[str], bool] = lambda host: False,
        strangers: Strangers | None = None,
    ) -> None:
        """`is_behind`: whether the loop is to work on those that were accepted before it accepts more; `quotas`: how
        many connections an address may open; `is_turned_away`: whether one may open none now, which is counted there;
        `strangers`: where clients log in. Then `protocol` gets its connection's `StrangerPlace`."""
        self._is_turned_away = is_turned_away
        self._strangers = strangers
        self._is_behind = is_behind
        self._quotas = quotas
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}
        self._sock = sock
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[object]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._start()

    def close(self) -> None:
        """Accept no more clients."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for sock, timer in self._turned_away.items():
            timer.cancel()
            sock.close()
        self._turned_away.clear()

    def _start(self) -> None:
        self._paused = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        if self._is_behind():  # asked again in the next iteration
            return
        taken_in, until = 0, perf_counter() + ACCEPT_SECONDS
        while taken_in < MAX_ACCEPTS:
            try:
                accepted, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left: new clients wait
                _log.warning("! accept failed", extra={"error": error, "seconds": _PAUSE_SECONDS})
                self._loop.remove_reader(self._sock)
                self._paused = self._loop.call_later(_PAUSE_SECONDS, self._start)
                return
            if self._comes_in(accepted, address):
                taken_in += 1
            elif perf_counter() > until:
                return

    def _comes_in(self, accepted: socket.socket, address: Any) -> bool:
        """Whether it is served from now on: others are closed, or wait, at next to no cost."""
        if self._is_turned_away(address[0]):
            accepted.close()
            return False
        if self._quotas is not None and self._quotas.of_addresses and self._is_above_rate(accepted, address):
            return False
        accepted.setblocking(False)
        if self._strangers is None:
            self._serve(accepted)
            return True
        return self._strangers.come(accepted, address[0], partial(self._serve, accepted), self._is_turned_away)

    def _serve(self, accepted: socket.socket, place: StrangerPlace | None = None) -> None:
        task: asyncio.Task[object] = self._loop.create_task(self._connect(accepted, place))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _is_above_rate(self, accepted: socket.socket, address: Any) -> bool:
        """Whether its address opens too many connections: then it is closed when the next one may come (KIP-612)."""
        quotas = self._quotas
        assert quotas is not None  # noqa: S101 - it was asked for
        delay = quotas.connect(address[0], self._loop.time())
        if not delay:
            return False
        quotas.metrics.throttle("connection", delay)
        _log.debug("! connection turned away", extra={"peer": address_of(address), "seconds": round(delay, 3)})
        if len(self._turned_away) < MAX_TURNED_AWAY:
            self._turned_away[accepted] = self._loop.call_later(delay, self._end, accepted)
        else:
            accepted.close()
        return True

    def _end(self, sock: socket.socket) -> None:
        del self._turned_away[sock]
        sock.close()

    async def _connect(self, accepted: socket.socket, place: StrangerPlace | None) -> None:
        try:
            protocol = self._protocol if place is None else partial(self._protocol, place)
            await self._loop.connect_accepted_socket(protocol, accepted)
        except OSError as error:  # gone already
            _log.debug("! client lost", extra={"error": error})
            accepted.close()
            if place is not None:
                place.leave()
