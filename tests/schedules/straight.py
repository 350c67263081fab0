"""A client's connection as far as requests that go straight need one: what they are answered, and in which order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from bridge.connection.responses import InFlightRequest, encode
from bridge.connection.straight import StraightRequest, StraightWay
from bridge.kafka import frames, message
from bridge.requests.api import Api, Broker
from bridge.requests.session import Session

CLIENT_ID = "client"


class _InFlight(deque[InFlightRequest | StraightRequest]):
    """Knows which came last, also when that is answered."""

    newest: StraightRequest

    def append(self, request: InFlightRequest | StraightRequest, /) -> None:
        """Behind all others."""
        assert isinstance(request, StraightRequest)
        self.newest = request
        super().append(request)


class StraightConnection:
    """It has one request of each API on its way at a time at most but for Produces, as a `Client` has."""

    def __init__(self, handlers: Broker, session: Session) -> None:
        self.handlers = handlers
        self._noted = _InFlight()
        self.in_flight: deque[InFlightRequest | StraightRequest] = self._noted
        self._way = StraightWay(handlers, session)
        self._outcomes: dict[StraightRequest, asyncio.Future[Any]] = {}
        self._general: dict[StraightRequest, memoryview] = {}

    def take(self, api: Api, request: Any, version: int, received: float) -> StraightRequest | None:
        """The request, if it goes straight; None: nothing has been done."""
        flexible = api.is_flexible(version)
        body = bytes(message.encode(request, version, flexible))
        frame = b"".join(frames.request(api.key, version, 1, CLIENT_ID, flexible, body))[4:]
        if not self._way.take(memoryview(frame), received, self):
            return None
        self._outcome(self._noted.newest)
        return self._noted.newest

    async def answer_to(self, request: StraightRequest) -> tuple[Any, Any]:
        """Its response, and what is left of it to ask the general way, if that is where it went."""
        try:
            return await asyncio.shield(self._outcomes[request]), self._general.pop(request, None)
        except asyncio.CancelledError:
            request.cancel()
            raise

    def _outcome(self, request: StraightRequest) -> "asyncio.Future[Any]":
        return self._outcomes.setdefault(request, asyncio.get_running_loop().create_future())

    def _answered(self, request: StraightRequest, response: Any) -> None:
        request.response = ()
        outcome = self._outcome(request)
        assert not outcome.done(), "answered twice"
        outcome.set_result(response)
        while self.in_flight and self.in_flight[0].response is not None:
            self.in_flight.popleft()

    # ---- `Answers` ---------------------------------------------------------------------------------------------------

    def answer_bytes(self, request: StraightRequest, answer: bytes) -> bool:
        """As the runner's."""
        api, version = request.api, request.version
        flexible = api.is_flexible(version)
        body = memoryview(answer)[8 + flexible :]
        self._answered(request, message.decode(api.response, body, version, flexible))
        return True

    def answer(self, request: StraightRequest, make: Callable[[], Any]) -> None:
        """As the runner's."""
        response = make()
        if response is not None:
            encode(request, response, pausing=False)
        self._answered(request, response)

    def poll(self, request: StraightRequest) -> None:
        """As the runner's."""

    def go_general(self, request: StraightRequest, frame: memoryview) -> None:
        """As the runner's, but the client asks."""
        self._general[request] = frame
        self._answered(request, None)

    def nothing_yet(self, request: StraightRequest) -> Any:
        """As the runner's, of a client that is gone."""
        return None
