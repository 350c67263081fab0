"""The straight ways of one connection."""

import os
from logging import DEBUG
from typing import Final

from bridge.apis import fetch, produce
from bridge.connection.straight.fetch import StraightFetch
from bridge.connection.straight.found import Answers
from bridge.connection.straight.produce import StraightProduce
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.telemetry import log

_log = log.get("bridge.connection.client")

_IS_ON: Final = os.environ.get("BRIDGE_TEST_STRAIGHT", "on") != "off"
"""Tests run with and without it: nothing may differ but the time it takes."""


class StraightWay:
    """What of a connection's requests goes straight."""

    __slots__ = ("_fetch", "_produce")

    def __init__(self, broker: Broker, session: Session) -> None:
        self._produce = StraightProduce(broker, session)
        self._fetch = StraightFetch(broker, session)

    @staticmethod
    def of(broker: Broker, session: Session) -> "StraightWay | None":
        """None where something stands before the handlers of these requests: another node, or logs of each."""
        are_plain = all(broker.apis.get(api.key) is api for api in (produce.API, fetch.API))
        if not _IS_ON or not are_plain or _log.isEnabledFor(DEBUG):
            return None
        return StraightWay(broker, session)

    def take(self, frame: memoryview, received: float, answers: Answers) -> bool:
        """Serve a request; False: nothing has been done."""
        if frame[0] or frame[2]:  # the first bytes of API key and version
            return False
        if frame[1] == produce.API.key:
            return self._produce.take(frame, received, answers)
        return frame[1] == fetch.API.key and self._fetch.take(frame, received, answers)
