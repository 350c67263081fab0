import pytest

from bridge.pulsar import EARLIEST, LATEST, ConnectionLost, MessageTooLarge, Position, PulsarError
from bridge.pulsar.commands import message_id
from bridge.pulsar.pb import PulsarApi_pb2 as pb


@pytest.mark.parametrize("position", [EARLIEST, LATEST, Position(5, -1), Position(0, 0), Position(12, 34)])
def test_positions_survive_the_unsigned_wire(position: Position) -> None:
    assert Position.of(pb.MessageIdData.FromString(message_id(position).SerializeToString())) == position


def test_positions_are_ordered_by_ledger_and_entry() -> None:
    assert EARLIEST < Position(1, 9) < Position(2, 0) < Position(2, 1) < LATEST
    assert Position(3, 4).before.after == Position(3, 4)
    assert str(Position(3, 4)) == "3:4"


def test_errors_say_whether_another_try_can_help() -> None:
    assert PulsarError(pb.ServiceNotReady, "later").retriable
    assert PulsarError(pb.ProducerBusy).retriable
    assert ConnectionLost("gone").retriable
    assert not PulsarError(pb.TopicNotFound).retriable
    assert not PulsarError(pb.ProducerFenced).retriable
    assert not MessageTooLarge(10, 5).retriable


def test_errors_name_themselves_also_when_newer_than_this_client() -> None:
    assert str(PulsarError(pb.TopicNotFound, "no such topic")) == "TopicNotFound: no such topic"
    assert str(PulsarError(12345)) == "ServerError12345"
    assert PulsarError(12345).retriable
