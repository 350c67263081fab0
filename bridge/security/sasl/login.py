"""One connection's log-in: what may be asked when, and what becomes of it.

    CHOOSE ──SaslHandshake──▶ PROVE ──SaslAuthenticate, as often as the mechanism needs──▶ LOGGED_IN
       ▲                        │                                                             │
       └── before it ApiVersions, after it no more                    SaslHandshake: again ◀──┘

| stage     | may be asked                                                                             |
|-----------|------------------------------------------------------------------------------------------|
| CHOOSE    | ApiVersions, SaslHandshake                                                               |
| PROVE     | SaslAuthenticate; after a handshake of v0 only the mechanism's bytes, without a header   |
| LOGGED_IN | everything, until the session ends; SaslHandshake also then                              |
| REFUSED   | nothing: the connection closes                                                           |

A client that logs in again (KIP-368) keeps its mechanism and its principal. Meanwhile its other requests are served, as
long as the session lasts. Times are the event loop's, but for those of credentials.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from bridge.security.principal import ANONYMOUS, Principal
from bridge.security.sasl.mechanism import Challenge, Done, Exchange, Failed, Mechanism, Step

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
"""Keys of APIs."""
MAX_BYTES: Final = 512 * 1024
"""Of a request before the log-in, as Kafka's sasl.server.max.receive.size."""
GRACE_SECONDS: Final = 4.0
"""After the end of a session its connection is closed, also if it asks for nothing."""
_MOST_MS: Final = (1 << 63) - 1
_MIN_AGAIN_SECONDS: Final = 1.0  # Kafka's KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS


class Stage(Enum):
    """How far a connection's log-in is."""

    CHOOSE = auto()
    PROVE = auto()
    LOGGED_IN = auto()
    REFUSED = auto()


class Login:
    """The log-in of a connection, over and over again."""

    __slots__ = (
        "_again_at",
        "_exchange",
        "_logged_in",
        "_max_seconds",
        "_mechanism",
        "_mechanisms",
        "ends_at",
        "principal",
        "stage",
        "takes_bytes",
        "times",
        "token",
        "user_name",
    )  # fmt: skip

    def __init__(self, mechanisms: Mapping[str, Mechanism], max_session_ms: int, logged_in: Callable[[], None]) -> None:
        """`max_session_ms`: 0 for any; `logged_in` is called each time it has succeeded."""
        self._mechanisms = mechanisms
        self._max_seconds = max_session_ms / 1000
        self._logged_in = logged_in
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._again_at = float("-inf")
        self.stage = Stage.CHOOSE
        self.times = 0
        """How often it has succeeded."""
        self.principal: Principal = ANONYMOUS
        self.token: str | None = None
        """The client's own, if it has logged in by one. A secret."""
        self.user_name: str | None = None
        """What the client calls itself where its token says who it is. Nothing proves it."""
        self.ends_at: float | None = None
        """When the session ends."""
        self.takes_bytes = False
        """Whether the next frame has the mechanism's bytes alone."""

    def __repr__(self) -> str:
        return f"{self.stage.name} {self.principal}"

    @property
    def mechanisms(self) -> list[str]:
        """Those that a client may choose."""
        return list(self._mechanisms)

    @property
    def mechanism(self) -> str:
        """The one that was chosen; empty where none was."""
        return self._mechanism

    @property
    def is_again(self) -> bool:
        """Whether the client was logged in before."""
        return self.times > 0

    def refusal(self, api_key: int, now: float) -> str | None:
        """Why a request may not be asked now, as `metrics.REJECTION_REASONS` has it."""
        if self.stage is Stage.LOGGED_IN or (self.stage is Stage.PROVE and self.is_again):
            ended = self.ends_at is not None and now > self.ends_at
            return "session_expired" if ended and api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE) else None
        allowed = {
            Stage.CHOOSE: (API_VERSIONS, SASL_HANDSHAKE),
            Stage.PROVE: () if self.takes_bytes else (SASL_AUTHENTICATE,),
        }
        return None if api_key in allowed.get(self.stage, ()) else "not_logged_in"

    def may_choose(self, version: int, now: float) -> bool:
        """Whether a SaslHandshake has a place now; the second log-in has to be by SaslAuthenticate.

        There is none where the session does not end, as in Kafka (`KafkaChannel.maybeBeginServerReauthentication`).
        """
        if self.stage is Stage.CHOOSE:
            return True
        if self.stage is not Stage.LOGGED_IN or self.ends_at is None or version == 0 or now < self._again_at:
            return False
        self._again_at = now + _MIN_AGAIN_SECONDS
        return True

    def choose(self, name: str, version: int) -> bool:
        """Take a mechanism; False, and the log-in is refused, if it is none of the listener's."""
        mechanism = self._mechanisms.get(name)
        if mechanism is None:
            self.stage = Stage.REFUSED
            return False
        self.stage = Stage.PROVE
        if self.is_again and name != self._mechanism:
            self._exchange = None
        else:
            self._mechanism, self._exchange = name, mechanism.begin()
        self.takes_bytes = version == 0
        return True

    def refuse(self) -> None:
        """The log-in is not looked at: the connection is to close."""
        self.stage = Stage.REFUSED

    @property
    def may_prove(self) -> bool:
        """Whether a SaslAuthenticate has a place now."""
        return self.stage is Stage.PROVE

    async def prove(self, data: bytes, unix_now: float, now: float) -> Step:
        """What the client's bytes lead to."""
        if self._exchange is None:  # as Kafka, only now: the client has asked for another mechanism than before
            step: Step = Failed("the mechanism is not that of the first log-in")
        else:
            step = await self._exchange.step(data, unix_now)
        if isinstance(step, Done) and self.is_again and step.principal != self.principal:
            step = Failed("the principal is not that of the first log-in", step.principal.name)
        if isinstance(step, Challenge):
            return step
        self._exchange, self.takes_bytes = None, False
        if isinstance(step, Failed):
            self.stage = Stage.REFUSED
            return step
        self.stage = Stage.LOGGED_IN
        self.times += 1
        self.principal, self.token, self.user_name = step.principal, step.token, step.user_name
        self.ends_at = self._end(step, unix_now, now)
        self._logged_in()
        return step

    def lifetime_ms(self, now: float) -> int:
        """How long the session lasts from now on; 0: it does not end."""
        return 0 if self.ends_at is None else max(int(min((self.ends_at - now) * 1000, _MOST_MS)), 1)

    def _end(self, done: Done, unix_now: float, now: float) -> float | None:
        lasts = [] if done.expires_at is None else [max(done.expires_at - unix_now, 0.0)]
        if self._max_seconds > 0:
            lasts.append(self._max_seconds)
        return now + min(lasts) if lasts else None
