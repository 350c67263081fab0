from bridge.transactions.newest_connections import Connection, NewestConnections


def test_an_older_connection_does_not_speak_once_a_newer_one_has() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(5, 10.0), 0.0)
    assert newest.admit("t", Connection(5, 10.0), 0.0)
    assert newest.admit("t", Connection(9, 11.0), 0.0)
    assert not newest.admit("t", Connection(5, 10.0), 0.0)
    assert newest.admit("t", Connection(9, 11.0), 0.0)


def test_each_id_has_its_own() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(9, 10.0), 0.0)
    assert newest.admit("u", Connection(5, 10.0), 0.0)


def test_a_connection_from_before_the_slot_was_taken_does_not_speak() -> None:
    newest = NewestConnections()
    assert not newest.admit("t", Connection(5, 10.0), 10.0)
    assert not newest.admit("t", Connection(6, 10.5), 11.0)
    assert newest.admit("t", Connection(7, 11.5), 11.0)
    assert not newest.admit("t", Connection(6, 10.5), 11.0)


def test_who_begins_an_epoch_speaks_in_it_on_whichever_connection() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(9, 12.0), 11.0)
    newest.begin("t", Connection(5, 10.0))
    assert newest.admit("t", Connection(5, 10.0), 11.0)
    assert newest.admit("t", Connection(9, 12.0), 11.0)
    assert not newest.admit("t", Connection(5, 10.0), 11.0)


def test_what_is_forgotten_does_not_count() -> None:
    newest = NewestConnections()
    assert newest.admit("t", Connection(9, 10.0), 0.0)
    newest.forget("t")
    newest.forget("t")
    assert newest.admit("t", Connection(5, 10.0), 0.0)


def test_ids_that_are_gone_are_left_out() -> None:
    newest = NewestConnections()
    for name in ("t", "u"):
        assert newest.admit(name, Connection(9, 10.0), 0.0)
    newest.keep(lambda name: name == "u")
    assert len(newest) == 1
    assert not newest.admit("u", Connection(5, 10.0), 0.0)
    assert newest.admit("t", Connection(5, 10.0), 0.0)
