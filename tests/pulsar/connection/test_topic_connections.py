"""Which of a broker's connections a topic's producers use."""

from bridge.pulsar.connection.broker_connection import Address
from bridge.pulsar.connection.topic_connections import SHARED, TopicConnections

NOW = 1000.0
A, B = Address("a", 6650, tls=False), Address("b", 6650, tls=False)


def test_each_topic_has_a_connection_of_its_own_and_keeps_it() -> None:
    connections = TopicConnections(10)
    found = [connections.number(address, topic, NOW) for address in (A, B) for topic in ("t", "u", "v")]
    assert len({*found, SHARED}) == 7
    assert [connections.number(address, topic, NOW) for address in (A, B) for topic in ("t", "u", "v")] == found


def test_beyond_the_limit_the_emptiest_is_shared() -> None:
    connections = TopicConnections(2)
    found = [connections.number(A, topic, NOW) for topic in "tuvwx"]
    assert found == [found[0], found[1], found[0], found[1], found[0]]
    assert connections.number(B, "t", NOW) not in found  # a limit is one broker's


def test_a_connection_that_is_gone_makes_room() -> None:
    connections = TopicConnections(2)
    first, second = connections.number(A, "t", NOW), connections.number(A, "u", NOW)
    assert connections.number(A, "v", NOW) == first
    connections.forget(A, first)
    assert connections.number(A, "w", NOW) not in (first, second)
    assert connections.number(A, "t", NOW) == second or connections.number(A, "t", NOW) > second
    connections.forget(B, first)


def test_what_the_broker_refuses_is_the_limit_from_then_on() -> None:
    connections = TopicConnections(10)
    first, refused = connections.number(A, "t", NOW), connections.number(A, "u", NOW)
    connections.forget(A, refused)
    assert connections.share(A, "u", [SHARED, first], NOW) == first
    assert connections.share(A, "u", [SHARED, first], NOW) == first  # so is told each of its producers
    assert connections.number(A, "u", NOW) == first != refused
    assert connections.number(A, "v", NOW) == first
    connections.forget(A, first)
    assert connections.number(A, "v", NOW) > refused  # as many as before


def test_where_the_broker_takes_one_connection_all_share_it() -> None:
    connections = TopicConnections(10)
    connections.forget(A, connections.number(A, "t", NOW))
    assert connections.share(A, "t", [SHARED], NOW) == SHARED
    assert connections.number(A, "u", NOW) == SHARED


def test_a_broker_is_asked_for_more_connections_again_when_a_minute_has_passed() -> None:
    connections = TopicConnections(10)
    connections.forget(A, connections.number(A, "t", NOW))
    assert connections.share(A, "t", [SHARED], NOW) == SHARED == connections.number(A, "u", NOW + 59)
    assert connections.number(A, "v", NOW + 61) != SHARED
    assert connections.number(A, "t", NOW + 61) == SHARED  # it stays where it is
