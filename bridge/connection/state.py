"""The states of a client connection: a table of what leads from one to another, and of what is done in each.

Rule 1: everything that decides about a connection's state is in this file, as much of it as possible in the tables. It
knows no socket, task or clock. `client` reports events and does what the new state says.

Rule 2: a connection has two machines, as a TCP connection has two halves.

`half_closed` is the client's half: False, and True from EOF on, forever.

`state` is the bridge's half:

    AUTHENTICATING ──AUTHENTICATED──▶ OPEN, where a connection begins that needs no log-in

    OPEN ──DRAIN──▶ DRAINING ──SENT_ON──▶ HOLDING
      │                │                     │
      │                └───────DRAINED──▶ FLUSHING ──IDLE──▶ LINGERING
      │                                      │                  │
      └───────── IDLE, once half_closed ─────┴────▶ CLOSING ◀───┘

    DRAIN leads from AUTHENTICATING to CLOSING: there is nothing yet that could be lost.
    CLOSE leads from all of these to CLOSING, CONNECTION_LOST from all of them to LOST, and IDLE from LOST to FINISHED.

| state     | when                                            | reads      | starts requests | responses              |
|-----------|-------------------------------------------------|------------|-----------------|------------------------|
| AUTHENTI- | until the client has logged in, where it has to | requests   | one at a time   | are written in order   |
| CATING    |                                                 |            |                 |                        |
| OPEN      | from then on, else from the first byte on       | requests   | yes             | are written in order   |
| DRAINING  | the process stops; see `draining`               | requests   | yes             | ask for a pause        |
| HOLDING   | draining, and the client does not pause         | requests   | yes             | are held until DRAINED |
| FLUSHING  | drained; the last responses go out              | no         | none is left    | are written            |
| LINGERING | the bridge has closed its half of the socket    | to discard | none is left    | none is left           |
| CLOSING   | the transport closes: a refused frame, a failed | no         | no              | are dropped            |
|           | handler, silence, or nothing left to do         |            |                 |                        |
| LOST      | the socket is gone; requests still run          | no         | not those that  | are dropped            |
|           |                                                 |            | only read       |                        |
| FINISHED  | the last request has ended                      | no         | none is left    | none is left           |

Once half_closed nothing is read, whatever the state.

Rule 3: flow control is no state. It is decided again whenever something changes (`may_start`, `may_read`), within what
the state allows:

| condition | when                                                                     | reads | starts requests |
|-----------|--------------------------------------------------------------------------|-------|-----------------|
| blocked   | the client does not read its responses                                   | no    | no              |
| full      | max_in_flight_requests or READ_AHEAD_BYTES are received, or no memory    | no    | yes             |
| throttled | the client has to wait for a quota, and no request is partly received    | no    | yes             |

Rule 4: what may be asked while AUTHENTICATING, and by a client that logs in again, is in `security/sasl/login`.
`requests.identify` refuses all else, before its body is read. A request may have 512 KiB, of memory apart from that of
others, and the client has to be logged in within the stall timeout. A log-in after the first one changes no state.
"""

from collections.abc import Mapping
from enum import Enum, auto


class State(Enum):
    """The bridge's half of a connection."""

    AUTHENTICATING = auto()
    OPEN = auto()
    DRAINING = auto()
    HOLDING = auto()
    FLUSHING = auto()
    LINGERING = auto()
    CLOSING = auto()
    LOST = auto()
    FINISHED = auto()


class Event(Enum):
    """An event that changes a connection's state."""

    AUTHENTICATED = auto()
    """The client has logged in, for the first time or again."""
    EOF = auto()
    """The client sends no more. It may still read."""
    DRAIN = auto()
    """The process stops."""
    SENT_ON = auto()
    """The client sent requests long after it was asked to pause."""
    DRAINED = auto()
    """Everything is answered, and little can be on its way."""
    IDLE = auto()
    """No request is received, running or in flight, and the transport has all responses."""
    CLOSE = auto()
    """The bridge ends the connection."""
    CONNECTION_LOST = auto()
    """The transport has closed."""


_END = {Event.CLOSE: State.CLOSING, Event.CONNECTION_LOST: State.LOST}

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.AUTHENTICATING: {
        Event.AUTHENTICATED: State.OPEN,
        Event.EOF: State.AUTHENTICATING,
        Event.DRAIN: State.CLOSING,
        **_END,
    },
    State.OPEN: {
        Event.AUTHENTICATED: State.OPEN,
        Event.EOF: State.OPEN,
        Event.DRAIN: State.DRAINING,
        **_END,
    },
    State.DRAINING: {
        Event.AUTHENTICATED: State.DRAINING,
        Event.EOF: State.DRAINING,
        Event.DRAIN: State.DRAINING,
        Event.SENT_ON: State.HOLDING,
        Event.DRAINED: State.FLUSHING,
        **_END,
    },
    State.HOLDING: {
        Event.AUTHENTICATED: State.HOLDING,
        Event.EOF: State.HOLDING,
        Event.DRAIN: State.HOLDING,
        Event.DRAINED: State.FLUSHING,
        **_END,
    },
    State.FLUSHING: {Event.EOF: State.FLUSHING, Event.DRAIN: State.FLUSHING, **_END},
    State.LINGERING: {Event.EOF: State.LINGERING, Event.DRAIN: State.LINGERING, **_END},
    State.CLOSING: {
        Event.AUTHENTICATED: State.CLOSING,
        Event.EOF: State.CLOSING,
        Event.DRAIN: State.CLOSING,
        **_END,
    },
    State.LOST: {Event.AUTHENTICATED: State.LOST, Event.DRAIN: State.LOST, Event.CLOSE: State.LOST},
    State.FINISHED: {},
}
"""What each event but IDLE leads to; what is not here cannot happen."""

IDLE_TRANSITIONS: Mapping[tuple[State, bool], State] = {
    (State.AUTHENTICATING, True): State.CLOSING,
    (State.OPEN, True): State.CLOSING,
    (State.FLUSHING, False): State.LINGERING,
    (State.FLUSHING, True): State.CLOSING,
    (State.LINGERING, True): State.CLOSING,
    (State.LOST, False): State.FINISHED,
    (State.LOST, True): State.FINISHED,
}
"""What IDLE leads to, from a state and `half_closed`. In all others the connection waits for something else."""

SERVING = frozenset({State.AUTHENTICATING, State.OPEN, State.DRAINING, State.HOLDING})
DRAINING = frozenset({State.DRAINING, State.HOLDING, State.FLUSHING})


class UnexpectedEvent(RuntimeError):
    """An event that cannot happen in this state: a fault of the bridge, not of the client."""


class ConnectionState:
    """Where one connection is. What may be done there is worked out once for each transition, for it is asked often."""

    __slots__ = (
        "discards", "draining", "ends_when_idle", "finished", "half_closed", "holds", "lost", "reads", "starts",
        "state",
    )  # fmt: skip

    def __init__(self, *, authenticating: bool = False) -> None:
        self.half_closed = False
        self._enter(State.AUTHENTICATING if authenticating else State.OPEN)

    def __repr__(self) -> str:
        return self.state.name + (", half closed" if self.half_closed else "")

    def on(self, event: Event) -> State:
        """The state that the event leads to, which is the connection's from now on."""
        if event is Event.IDLE:
            after = IDLE_TRANSITIONS.get((self.state, self.half_closed))
        else:
            after = TRANSITIONS[self.state].get(event)
        if after is None:
            raise UnexpectedEvent(f"{event.name} in state {self!r}")
        self.half_closed = self.half_closed or event is Event.EOF
        self._enter(after)
        return after

    def most_in_flight(self, limit: int) -> int:
        """How many requests may be in flight, where a client that is logged in may have so many."""
        return 1 if self.state is State.AUTHENTICATING else limit

    def may_start(self, writable: bool, in_flight: int, limit: int) -> bool:
        """Whether a request that is received may start. Of a lost connection all may: nothing is written for them."""
        return (self.starts and writable and in_flight < limit) or self.lost

    def may_read(self, writable: bool, unanswered: int, limit: int, full: bool, throttled: bool = False) -> bool:
        """Whether more requests may be received, if there is memory; `full`: enough bytes are read ahead."""
        return self.reads and writable and unanswered < limit and not (full or throttled)

    def _enter(self, state: State) -> None:
        self.state = state
        self.starts = state in SERVING
        self.reads = self.starts and not self.half_closed
        self.discards = state is State.LINGERING
        self.draining = state in DRAINING
        self.holds = state is State.HOLDING
        self.finished = state is State.FINISHED
        self.lost = self.finished or state is State.LOST
        self.ends_when_idle = (state, self.half_closed) in IDLE_TRANSITIONS
