"""What members of share groups say of their records, as it is read."""

import time

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import MAX_ELEMENTS
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests.acknowledgements import checked
from bridge.shares.state import ACCEPT, RELEASE, Acknowledgement


def test_neighbours_of_the_same_type_are_one() -> None:
    said = AcknowledgementBatch(first_offset=3, last_offset=6, acknowledge_types=[ACCEPT, ACCEPT, RELEASE, RELEASE])
    assert checked([said], renews=False) == [Acknowledgement(3, 4, ACCEPT), Acknowledgement(5, 6, RELEASE)]


def test_what_changes_more_often_than_a_member_can_have_records_is_refused_soon() -> None:
    """As many types as a request may have at all, each another one than that before; the event loop waits."""
    types = [ACCEPT, RELEASE] * (MAX_ELEMENTS // 2)
    said = AcknowledgementBatch(first_offset=0, last_offset=len(types) - 1, acknowledge_types=types)
    began = time.process_time()
    with pytest.raises(KafkaError) as raised:
        checked([said], renews=False)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert time.process_time() - began < 0.1
