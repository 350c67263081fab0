"""The states of a connection: the table is whole, every state is reached, and each has a way to the end."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connection.state import IDLE_TRANSITIONS, TRANSITIONS, ConnectionState, Event, State, UnexpectedEvent

LIMIT = 5
PAIRS = sorted(product(State, (False, True), Event), key=str)
ENDS = (State.CLOSING, State.LOST, State.FINISHED)


def at(state: State, half_closed: bool) -> ConnectionState:
    """A connection that is there, by the shortest way."""
    return next(found for found in reached() if (found.state, found.half_closed) == (state, half_closed))


def reached() -> Iterator[ConnectionState]:
    """One connection in each state there is a way to."""
    ways: list[tuple[Event, ...]] = [()]
    met = set()
    for way in ways:
        connection = after(way)
        if (connection.state, connection.half_closed) not in met:
            met.add((connection.state, connection.half_closed))
            ways.extend((*way, event) for event in expected(connection))
            yield connection


def after(way: tuple[Event, ...]) -> ConnectionState:
    connection = ConnectionState(authenticating=True)
    for event in way:
        connection.on(event)
    return connection


def expected(connection: ConnectionState) -> list[Event]:
    """The events that can happen to it."""
    events = list(TRANSITIONS[connection.state])
    return [*events, Event.IDLE] if connection.ends_when_idle else events


def test_there_is_a_way_to_every_state_and_to_both_halves_of_it() -> None:
    assert {(one.state, one.half_closed) for one in reached()} == set(product(State, (False, True)))


@pytest.mark.parametrize(("state", "half_closed", "event"), PAIRS)
def test_an_event_leads_where_the_table_says_or_is_unexpected(state: State, half_closed: bool, event: Event) -> None:
    connection = at(state, half_closed)
    table = {**TRANSITIONS[state], Event.IDLE: IDLE_TRANSITIONS.get((state, half_closed))}
    to = table.get(event)
    if to is None:
        with pytest.raises(UnexpectedEvent, match=f"{event.name} in state {state.name}"):
            connection.on(event)
        assert (connection.state, connection.half_closed) == (state, half_closed)
    else:
        assert connection.on(event) is connection.state is to
        assert connection.half_closed == (half_closed or event is Event.EOF)


@pytest.mark.parametrize(
    ("state", "reads", "starts", "draining", "holds", "discards", "lost"),
    [
        (State.AUTHENTICATING, True, True, False, False, False, False),
        (State.OPEN, True, True, False, False, False, False),
        (State.DRAINING, True, True, True, False, False, False),
        (State.HOLDING, True, True, True, True, False, False),
        (State.FLUSHING, False, False, True, False, False, False),
        (State.LINGERING, False, False, False, False, True, False),
        (State.CLOSING, False, False, False, False, False, False),
        (State.LOST, False, False, False, False, False, True),
        (State.FINISHED, False, False, False, False, False, True),
    ],
)
def test_what_is_done_in_a_state(
    state: State, reads: bool, starts: bool, draining: bool, holds: bool, discards: bool, lost: bool
) -> None:
    for half_closed in (False, True):
        one = at(state, half_closed)
        assert one.reads == (reads and not half_closed)
        assert (one.starts, one.draining, one.holds, one.discards, one.lost) == (
            starts,
            draining,
            holds,
            discards,
            lost,
        )
        assert one.may_read(True, LIMIT - 1, LIMIT, False) == one.reads
        assert one.may_start(True, LIMIT - 1, LIMIT) == (starts or lost)


def test_a_blocked_connection_neither_reads_nor_starts() -> None:
    connection = ConnectionState()
    assert not connection.may_read(False, 0, LIMIT, False)
    assert not connection.may_start(False, 0, LIMIT)


def test_a_full_connection_starts_what_it_has() -> None:
    connection = ConnectionState()
    assert not connection.may_read(True, 0, LIMIT, True)
    assert not connection.may_read(True, LIMIT, LIMIT, False)
    assert connection.may_start(True, LIMIT - 1, LIMIT)
    assert not connection.may_start(True, LIMIT, LIMIT)


def test_a_throttled_connection_reads_nothing_and_does_what_it_has() -> None:
    connection = ConnectionState()
    assert not connection.may_read(True, 0, LIMIT, False, throttled=True)
    assert connection.may_start(True, 0, LIMIT)


def test_a_lost_connection_runs_all_that_it_has_received() -> None:
    assert at(State.LOST, False).may_start(False, LIMIT, LIMIT)


def test_one_request_at_a_time_until_the_client_has_logged_in() -> None:
    connection = ConnectionState(authenticating=True)
    assert connection.most_in_flight(LIMIT) == 1
    connection.on(Event.AUTHENTICATED)
    assert connection.most_in_flight(LIMIT) == LIMIT == ConnectionState().most_in_flight(LIMIT)


def test_where_no_log_in_is_needed_a_connection_begins_open() -> None:
    assert ConnectionState().state is State.OPEN


def test_a_connection_tells_its_state() -> None:
    assert repr(at(State.HOLDING, True)) == "HOLDING, half closed"


@given(st.data())
def test_whatever_happens_nothing_is_read_again_and_the_connection_can_end(data: st.DataObject) -> None:
    connection = ConnectionState(authenticating=data.draw(st.booleans()))
    for _ in range(data.draw(st.integers(0, 20))):
        events = expected(connection)
        if not events:
            break
        read, ended, half_closed = connection.reads, connection.state in ENDS, connection.half_closed
        connection.on(data.draw(st.sampled_from(events)))
        assert read or not connection.reads, "what was not read any more is read again"
        assert connection.state in ENDS or not ended, "an end was not the end"
        assert connection.half_closed or not half_closed
    if not connection.lost:
        connection.on(Event.CONNECTION_LOST)
    if connection.state is State.LOST:
        connection.on(Event.IDLE)
    assert connection.state is State.FINISHED
