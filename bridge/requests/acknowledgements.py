"""What members of share groups say of the records that they have: checked, and stored by the partitions' leaders."""

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests.share import MOST_RANGES, Opened
from bridge.runtime.futures import in_turns
from bridge.shares.sessions import Place
from bridge.shares.state import REJECT, RENEW, Acknowledgement


async def acknowledged(
    member_id: str,
    said: Mapping[Place, Sequence[AcknowledgementBatch]],
    parts: Mapping[Place, Opened],
    *,
    renews: bool,
) -> dict[Place, KafkaError | None]:
    """Have acknowledgements stored; the error of each partition that has any, None where there is none.

    `renews`: the request says that it renews locks (v2).
    """
    if sum(map(len, said.values())) > MOST_RANGES:
        raise _too_many()
    waiting: dict[Place, asyncio.Future[None]] = {}
    errors: dict[Place, KafkaError | None] = {}
    async for place in in_turns(said):
        batches, led = said[place], parts[place].led
        try:
            if isinstance(led, KafkaError):
                raise led
            waiting[place] = led.acknowledge(member_id, checked(batches, renews=renews))
        except KafkaError as error:
            errors[place] = error.bare()
    for place, answer in waiting.items():
        try:
            await answer
            errors[place] = None
        except KafkaError as error:
            errors[place] = error.bare()
    return errors


def checked(batches: Sequence[AcknowledgementBatch], *, renews: bool) -> list[Acknowledgement]:
    """What is said, in order; INVALID_REQUEST where that cannot be meant (Kafka's `validateAcknowledgementBatches`).

    Or where types change so often that it is more than a member can have of a partition.
    """
    said: list[Acknowledgement] = []
    least, last_type = 0, RENEW if renews else REJECT
    for one in batches:
        count, types = one.last_offset - one.first_offset + 1, one.acknowledge_types
        if one.first_offset < least or count <= 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "batches of acknowledgements are not in order")
        if len(types) not in (1, count) or not all(0 <= kind <= last_type for kind in types):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the types of acknowledgements are not known, or not enough")
        least = one.last_offset + 1
        if len(types) == 1:
            said.append(Acknowledgement(one.first_offset, one.last_offset, types[0]))
            continue
        begin = 0
        for at in range(1, count + 1):
            if at == count or types[at] != types[begin]:
                said.append(Acknowledgement(one.first_offset + begin, one.first_offset + at - 1, types[begin]))
                begin = at
            if len(said) > MOST_RANGES:
                raise _too_many()
    return said


def _too_many() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"more than {MOST_RANGES} batches of acknowledgements")
