"""Every error of the owned log has a Kafka error."""

import inspect

from bridge.errors import KafkaError
from bridge.groups.store.errors import kafka_error
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import OwnedLogError, SlotNotOwned, errors


def test_every_error_is_translated() -> None:
    kinds = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, OwnedLogError)]
    kinds.remove(OwnedLogError)
    assert len(kinds) == 5
    for kind in kinds:
        translated = kafka_error(kind("why"))
        assert isinstance(translated, KafkaError)
        assert translated.message == "why"


def test_an_error_is_a_new_one_each_time() -> None:
    error = SlotNotOwned("why")
    assert kafka_error(error) is not kafka_error(error)
    assert kafka_error(error).code == ErrorCode.NOT_COORDINATOR
