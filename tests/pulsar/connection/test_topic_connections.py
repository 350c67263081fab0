"""Which of a broker's connections a topic's producers use."""

from bridge.pulsar.connection.broker_connection import Address
from bridge.pulsar.connection.topic_connections import SHARED, TopicConnections

A, B = Address("a", 6650, tls=False), Address("b", 6650, tls=False)


def test_each_topic_has_a_connection_of_its_own_and_keeps_it() -> None:
    connections = TopicConnections(10)
    found = [connections.number(address, topic) for address in (A, B) for topic in ("t", "u", "v")]
    assert len({*found, SHARED}) == 7
    assert [connections.number(address, topic) for address in (A, B) for topic in ("t", "u", "v")] == found


def test_beyond_the_limit_the_emptiest_is_shared() -> None:
    connections = TopicConnections(2)
    found = [connections.number(A, topic) for topic in "tuvwx"]
    assert found == [found[0], found[1], found[0], found[1], found[0]]
    assert connections.number(B, "t") not in found  # a limit is one broker's


def test_a_connection_that_is_gone_makes_room() -> None:
    connections = TopicConnections(2)
    first, second = connections.number(A, "t"), connections.number(A, "u")
    assert connections.number(A, "v") == first
    connections.forget(A, first)
    assert connections.number(A, "w") not in (first, second)
    assert connections.number(A, "t") == second or connections.number(A, "t") > second
    connections.forget(B, first)


def test_what_the_broker_refuses_is_the_limit_from_then_on() -> None:
    connections = TopicConnections(10)
    first, refused = connections.number(A, "t"), connections.number(A, "u")
    connections.forget(A, refused)
    assert connections.share(A, "u", [SHARED, first]) == first
    assert connections.share(A, "u", [SHARED, first]) == first  # so is told each of its producers
    assert connections.number(A, "u") == first != refused
    assert connections.number(A, "v") == first
    connections.forget(A, first)
    assert connections.number(A, "v") > refused  # as many as before


def test_where_the_broker_takes_one_connection_all_share_it() -> None:
    connections = TopicConnections(10)
    connections.forget(A, connections.number(A, "t"))
    assert connections.share(A, "t", [SHARED]) == SHARED
    assert connections.number(A, "u") == SHARED
