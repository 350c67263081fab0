"""Who finds a place: so many of a network, and probes beside them."""

from bridge.http.places import MAX_PROBES, ConnectionPlaces, Visit


def test_a_network_of_ipv6_is_one_address() -> None:
    places = ConnectionPlaces(10, 2)
    for number in range(2):
        visit, _ = places.enter(f"2001:db8::{number}")
        assert not visit.is_for_probes
    assert places.enter("2001:db8::ffff:1")[0].is_for_probes
    assert not places.enter("2001:db8:0:1::1")[0].is_for_probes


def test_who_leaves_makes_room() -> None:
    places = ConnectionPlaces(1, 1)
    first, _ = places.enter("10.0.0.1")
    more, _ = places.enter("10.0.0.1")
    assert (first.is_for_probes, more.is_for_probes) == (False, True)
    places.leave(more)
    places.leave(first)
    assert not places.enter("10.0.0.1")[0].is_for_probes


def test_the_network_with_most_silent_ones_makes_room_the_oldest_first() -> None:
    places = ConnectionPlaces(0, 1)
    probe, _ = places.enter("10.0.0.1")
    crowd = [places.enter("10.0.0.2")[0] for _ in range(MAX_PROBES - 1)]
    crowd[0].has_asked = True
    gone: list[Visit | None] = [places.enter("10.0.0.2")[1] for _ in range(3)]
    assert gone == crowd[1:4]
    assert probe not in gone


def test_who_has_asked_makes_room_only_where_all_have() -> None:
    places = ConnectionPlaces(0, 1)
    visits = [places.enter(f"10.0.0.{number}")[0] for number in range(MAX_PROBES)]
    for visit in visits:
        visit.has_asked = True
    assert places.enter("10.0.1.1")[1] is visits[0]
