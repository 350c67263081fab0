"""The Kafka error of each error of the owned log of groups; no other file translates them."""

from collections.abc import Mapping
from typing import Final

from bridge import owned_log
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_CODES: Final[Mapping[type[owned_log.OwnedLogError], ErrorCode]] = {
    owned_log.SlotUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    owned_log.SlotLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    owned_log.SlotNotOwned: ErrorCode.NOT_COORDINATOR,
    owned_log.WriteTimedOut: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    owned_log.RecordTooLarge: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def kafka_error(error: owned_log.OwnedLogError) -> KafkaError:
    """What a client is told: to wait, to look for the coordinator again, or that it asks too much."""
    return KafkaError(_CODES[type(error)], str(error))
