import pytest

from bench.followers import after, fetch_frame, from_offset
from bridge.kafka import fetch_wire
from tests.bench.answers import answer, batch


def test_a_follower_goes_on_behind_the_last_batch() -> None:
    batches = [batch(5, 2), batch(7, 3)]
    assert after(answer(batches), "topic", 5) == (10, sum(map(len, batches)))


def test_a_follower_stays_where_it_is_when_nothing_came() -> None:
    assert after(answer([]), "topic", 5) == (5, 0)


def test_a_batch_that_was_cut_off_does_not_count() -> None:
    whole, part = batch(5, 2), batch(7, 3)[:40]
    assert after(answer([whole, part]), "topic", 5) == (7, len(whole) + 40)


def test_an_error_stops_it() -> None:
    with pytest.raises(ValueError, match="error 1"):
        after(answer([], error=1), "topic", 5)


def test_the_offsets_in_a_fetch_of_many_partitions_can_be_changed_in_place() -> None:
    frame, places = fetch_frame("topic", 300, 3000)
    for partition, place in enumerate(places):
        frame = from_offset(frame, place, partition * 1000)
    request = fetch_wire.read(memoryview(frame)[14:], 11)  # behind its length and a header without client id
    assert (request.max_wait_ms, request.min_bytes) == (3000, 1)
    asked = [(one.partition, one.fetch_offset) for one in request.topics[0].partitions]
    assert asked == [(partition, partition * 1000) for partition in range(300)]
