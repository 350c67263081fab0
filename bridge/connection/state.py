"""The states of a client connection: a table of what leads from one to another, and of what is done in each.

Rule 1: everything that decides about a connection's state is in this file, as much of it as possible in the tables. It
knows no socket, task or clock. `client` reports events and does what the new state says.

Rule 2: a connection has two machines, as a TCP connection has two halves.

`half_closed` is the client's half: False, and True from EOF on, forever.

`state` is the bridge's half:

    OPEN ──DRAIN──▶ DRAINING ──SENT_ON──▶ HOLDING
      │                │                     │
      │                └───────DRAINED──▶ FLUSHING ──IDLE──▶ LINGERING
      │                                      │                  │
      └───────── IDLE, once half_closed ─────┴────▶ CLOSING ◀───┘

    CLOSE leads from all of these to CLOSING, CONNECTION_LOST from all of them to LOST, and IDLE from LOST to FINISHED.

| state     | when                                            | reads      | starts requests | responses              |
|-----------|-------------------------------------------------|------------|-----------------|------------------------|
| OPEN      | from the first byte on                          | requests   | yes             | are written in order   |
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

Authentication (SASL) is not supported. It would be one more state, before OPEN, that an event AUTHENTICATED leaves. In
it a connection may ask ApiVersions, SaslHandshake and SaslAuthenticate and nothing else, one request at a time:
`requests.identify` refuses all others, before their bodies are read. It may take as much memory as one request of
Kafka's `sasl.server.max.receive.size` (512 KiB), the limit of `intake`, and has to leave it within the stall timeout.
"""

from collections.abc import Mapping
from enum import Enum, auto


class State(Enum):
    """The bridge's half of a connection."""

    OPEN = auto()
    DRAINING = auto()
    HOLDING = auto()
    FLUSHING = auto()
    LINGERING = auto()
    CLOSING = auto()
    LOST = auto()
    FINISHED = auto()


class Event(Enum):
    """What changes a state."""

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
    State.OPEN: {Event.EOF: State.OPEN, Event.DRAIN: State.DRAINING, **_END},
    State.DRAINING: {
        Event.EOF: State.DRAINING,
        Event.DRAIN: State.DRAINING,
        Event.SENT_ON: State.HOLDING,
        Event.DRAINED: State.FLUSHING,
        **_END,
    },
    State.HOLDING: {
        Event.EOF: State.HOLDING,
        Event.DRAIN: State.HOLDING,
        Event.DRAINED: State.FLUSHING,
        **_END,
    },
    State.FLUSHING: {Event.EOF: State.FLUSHING, Event.DRAIN: State.FLUSHING, **_END},
    State.LINGERING: {Event.EOF: State.LINGERING, Event.DRAIN: State.LINGERING, **_END},
    State.CLOSING: {Event.EOF: State.CLOSING, Event.DRAIN: State.CLOSING, **_END},
    State.LOST: {Event.DRAIN: State.LOST, Event.CLOSE: State.LOST},
    State.FINISHED: {},
}
"""What each event but IDLE leads to; what is not here cannot happen."""

IDLE_TRANSITIONS: Mapping[tuple[State, bool], State] = {
    (State.OPEN, True): State.CLOSING,
    (State.FLUSHING, False): State.LINGERING,
    (State.FLUSHING, True): State.CLOSING,
    (State.LINGERING, True): State.CLOSING,
    (State.LOST, False): State.FINISHED,
    (State.LOST, True): State.FINISHED,
}
"""What IDLE leads to, from a state and `half_closed`. In all others the connection waits for something else."""

SERVING = frozenset({State.OPEN, State.DRAINING, State.HOLDING})
DRAINING = frozenset({State.DRAINING, State.HOLDING, State.FLUSHING})


class UnexpectedEvent(RuntimeError):
    """An event that cannot happen in this state: a fault of the bridge, not of the client."""


class ConnectionState:
    """Where one connection is. What may be done there is worked out once for each transition, for it is asked often."""

    __slots__ = ("discards", "draining", "ends_when_idle", "half_closed", "holds", "lost", "reads", "starts", "state")

    def __init__(self) -> None:
        self.half_closed = False
        self._enter(State.OPEN)

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

    def may_start(self, writable: bool, in_flight: int, limit: int) -> bool:
        """Whether a request that is received may start. Of a lost connection all may: nothing is written for them."""
        return (self.starts and writable and in_flight < limit) or self.lost

    def may_read(self, writable: bool, unanswered: int, limit: int, full: bool) -> bool:
        """Whether more requests may be received, if there is memory; `full`: enough bytes are read ahead."""
        return self.reads and writable and unanswered < limit and not full

    def _enter(self, state: State) -> None:
        self.state = state
        self.starts = state in SERVING
        self.reads = self.starts and not self.half_closed
        self.discards = state is State.LINGERING
        self.draining = state in DRAINING
        self.holds = state is State.HOLDING
        self.lost = state in (State.LOST, State.FINISHED)
        self.ends_when_idle = (state, self.half_closed) in IDLE_TRANSITIONS
