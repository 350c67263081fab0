from bridge.transactions.newest_connections import Connection, NewestConnections

NOW = 100.0


def test_an_older_connection_does_not_speak_once_a_newer_one_has() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(5, 10.0), 0.0, NOW)
    assert newest.admit("t", Connection(5, 10.0), 0.0, NOW)
    assert newest.admit("t", Connection(9, 11.0), 0.0, NOW)
    assert not newest.admit("t", Connection(5, 10.0), 0.0, NOW)
    assert newest.admit("t", Connection(9, 11.0), 0.0, NOW)


def test_each_id_has_its_own() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(9, 10.0), 0.0, NOW)
    assert newest.admit("u", Connection(5, 10.0), 0.0, NOW)


def test_a_connection_from_before_the_slot_was_taken_does_not_speak() -> None:
    newest = NewestConnections()
    assert not newest.admit("t", Connection(5, 10.0), 10.0, NOW)
    assert not newest.admit("t", Connection(5, 10.0), 11.0, NOW)
    assert newest.admit("t", Connection(4, 11.5), 11.0, NOW)  # what was refused counts for nothing


def test_one_that_has_begun_an_id_goes_on_though_the_slot_was_taken_since_it_was_opened() -> None:
    """The first client of a namespace: its question for a coordinator makes the slots."""
    newest = NewestConnections()
    assert newest.admit("t", Connection(5, 10.0), 11.0, 12.0, is_new=True)
    assert newest.admit("t", Connection(5, 10.0), 11.0, 13.0)
    assert not newest.admit("t", Connection(4, 9.0), 11.0, 14.0)
    assert not newest.admit("t", Connection(5, 10.0), 15.0, 16.0)  # lost, and taken again
    assert newest.admit("t", Connection(6, 15.5), 15.0, 16.0)


def test_what_is_forgotten_does_not_count() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(9, 10.0), 0.0, NOW)
    newest.forget("t")
    newest.forget("t")
    assert newest.admit("t", Connection(5, 10.0), 0.0, NOW)
