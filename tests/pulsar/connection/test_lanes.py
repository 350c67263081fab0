"""Which of a broker's connections a topic's producers use."""

from bridge.pulsar.connection.broker_connection import Address
from bridge.pulsar.connection.lanes import SHARED, Lanes

A, B = Address("a", 6650, tls=False), Address("b", 6650, tls=False)


def test_each_topic_has_a_lane_of_its_own_and_keeps_it() -> None:
    lanes = Lanes(10)
    found = [lanes.of(address, topic) for address in (A, B) for topic in ("t", "u", "v")]
    assert len({*found, SHARED}) == 7
    assert [lanes.of(address, topic) for address in (A, B) for topic in ("t", "u", "v")] == found


def test_beyond_the_limit_the_emptiest_is_shared() -> None:
    lanes = Lanes(2)
    found = [lanes.of(A, topic) for topic in "tuvwx"]
    assert found == [found[0], found[1], found[0], found[1], found[0]]
    assert lanes.of(B, "t") not in found  # a limit is one broker's


def test_a_lane_whose_connection_is_gone_makes_room() -> None:
    lanes = Lanes(2)
    first, second = lanes.of(A, "t"), lanes.of(A, "u")
    assert lanes.of(A, "v") == first
    lanes.forget(A, first)
    assert lanes.of(A, "w") not in (first, second)
    assert lanes.of(A, "t") == second or lanes.of(A, "t") > second
    lanes.forget(B, first)


def test_what_the_broker_refuses_is_the_limit_from_then_on() -> None:
    lanes = Lanes(10)
    first, refused = lanes.of(A, "t"), lanes.of(A, "u")
    assert lanes.share(A, "u", [SHARED, first]) == first
    assert lanes.of(A, "u") == first != refused
    assert lanes.of(A, "v") == first
    lanes.forget(A, first)
    assert lanes.of(A, "v") > refused  # as many as before


def test_where_the_broker_takes_one_connection_all_share_it() -> None:
    lanes = Lanes(10)
    lanes.of(A, "t")
    assert lanes.share(A, "t", [SHARED]) == SHARED
    assert lanes.of(A, "u") == SHARED
