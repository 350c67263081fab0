"""A batch behind a gap is told to come again while what is missing may come, and refused as out of order afterwards."""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.append.missing_batches import MissingBatches
from bridge.storage.append.sequences import SequencePosition, Sequences
from tests.schedules.explorer import schedules
from tests.schedules.world import World


@schedules(2)
async def test_a_missing_batch_is_waited_for_until_its_client_has_given_it_up(world: World) -> None:
    missing, sequences = MissingBatches(), Sequences(SequencePosition(0, 0, 4).to_pulsar())

    def told(sequence: int, *, has_moved: bool = False) -> int:
        try:
            missing.check_order("t", (100, 0, sequence), sequences, lambda: has_moved)
        except KafkaError as error:
            return error.code
        return 0

    assert told(6) == 0, "that it leaves a gap is judged by the sequences"
    assert told(6, has_moved=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told(5, has_moved=True) == 0
    missing.note_missing("t", 100, 0, 5)
    await world.sleep(50)
    missing.note_missing("t", 100, 0, 5)
    await world.sleep(50)
    assert told(6) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told(5) == 0
    await world.sleep(20)
    assert told(6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert told(5) == 0
    missing.note_missing("t", 100, 0, 5, refused=True)
    assert told(6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "Pulsar never takes it"
