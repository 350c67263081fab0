"""A client's connection: as what its requests are counted."""

import asyncio
from typing import Any, cast

from bridge.requests.session import Session
from bridge.security.principal import Principal, user
from bridge.storage.read.pending_reads import ReadRequest
from bridge.telemetry.traffic import UNUSUAL, ClientKind, TrafficTable, principal_label


def connected(clients: TrafficTable[ClientKind], **fields: Any) -> Session:
    return Session(1, "10.0.0.1:1", "SASL_SSL", clients=clients, login=cast(Any, object()), **fields)


def counted(clients: TrafficTable[ClientKind]) -> dict[ClientKind, tuple[int, int]]:
    """The connections and the requests of each kind of client."""
    return {kind: (traffic.users, traffic.requests) for kind, traffic in clients.entries()}


def test_a_client_is_counted_by_what_it_says_first_of_its_software() -> None:
    clients: TrafficTable[ClientKind] = TrafficTable()
    session = connected(clients)
    session.traffic.requests += 1
    for name in ("librdkafka", "another"):
        session.told_software(name, "2.3.0")
        session.traffic.requests += 1
    session.acts_for(user("alice"))
    session.traffic.requests += 1
    assert counted(clients) == {("(unknown)", "(unknown)"): (0, 1), ("librdkafka", "2.3.0"): (1, 3)}
    session.closed()
    session.told_software("late", "1")
    assert counted(clients)["librdkafka", "2.3.0"] == (0, 3)
    assert len(clients) == 2


def test_by_principal_it_is_counted_from_its_log_in_on() -> None:
    clients: TrafficTable[ClientKind] = TrafficTable()
    session = connected(clients, by_principal=True)
    session.told_software("librdkafka", "2.3.0")
    session.traffic.requests += 1
    session.acts_for(user("alice"))
    session.traffic.requests += 1
    software = ("librdkafka", "2.3.0")
    assert counted(clients) == {
        ("(unknown)",) * 3: (0, 0),
        (*software, "(unknown)"): (0, 1),
        (*software, "User:alice"): (1, 1),
    }
    session.closed()
    session.acts_for(user("bob"))
    assert counted(clients)[*software, "User:alice"] == (0, 1)
    assert len(clients) == 3


def test_by_principal_one_that_needs_no_log_in_is_counted_at_once() -> None:
    clients: TrafficTable[ClientKind] = TrafficTable()
    Session(1, "10.0.0.1:1", "SSL", clients=clients, by_principal=True, principal=user("CN=a"))
    Session(2, "10.0.0.1:2", "PLAINTEXT", clients=clients, by_principal=True)
    assert set(counted(clients)) == {
        ("(unknown)", "(unknown)", "User:CN=a"),
        ("(unknown)", "(unknown)", "User:ANONYMOUS"),
    }


def test_principals_that_would_not_fit_into_a_label_are_one() -> None:
    assert principal_label(str(user("a" * 195))) == "User:" + "a" * 195
    assert principal_label("User:Zoë") == "User:Zoë"
    for name in ("a" * 196, "a\nb", "\x00"):
        assert principal_label(str(Principal("User", name))) == UNUSUAL


async def test_reads_end_with_a_connection_that_has_as_many_actions_as_may_be() -> None:
    """Each partition that an idempotent producer writes to has one. What the reads have reserved is all clients'."""
    reserved = 0

    def reserve(count: int) -> None:
        nonlocal reserved
        reserved += count

    class Log:
        async def read(self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False) -> Any:
            await asyncio.sleep(timeout_seconds)

    session = Session(1, "10.0.0.1:1", "", reserve_response_bytes=reserve)
    while session.on_close(object(), lambda: None):
        pass
    session.pending_reads.start(ReadRequest(Log(), 0), Log(), 1000, 60.0, 1000)
    assert reserved == 1000
    session.closed()
    assert reserved == 0


def test_an_action_can_be_replaced_though_there_are_as_many_as_may_be() -> None:
    session, told = Session(1, "10.0.0.1:1", ""), list[str]()
    assert session.on_close("key", lambda: told.append("old"))
    while session.on_close(object(), lambda: None):
        pass
    assert session.on_close("key", lambda: told.append("new"))
    session.closed()
    assert told == ["new"]
