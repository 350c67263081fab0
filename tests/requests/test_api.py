"""The API descriptor."""

from typing import Any

from bridge.apis import load
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.responses import error_codes

APIS: dict[str, Any] = {api.name: api for api in load().values()}


def test_versions() -> None:
    fetch = APIS["Fetch"]
    assert [fetch.serves(version) for version in (0, 3, 17, 18)] == [True, True, True, False]
    assert [fetch.is_flexible(version) for version in (11, 12)] == [False, True]


def test_a_failure_is_told_where_the_version_has_a_place_for_it() -> None:
    answer = APIS["InitProducerId"].failure(None, ErrorCode.NOT_COORDINATOR, "", 0)
    assert (answer.error_code, answer.producer_id) == (16, -1)
    assert APIS["DescribeCluster"].failure(None, ErrorCode.REQUEST_TIMED_OUT, "late", 1).error_message == "late"
    # from v13 on Metadata has a place for it, where clients do not look: they would see no topics
    assert APIS["Metadata"].failure(None, ErrorCode.REQUEST_TIMED_OUT, "", 12) is None
    assert APIS["Metadata"].failure(None, ErrorCode.REQUEST_TIMED_OUT, "", 13) is None
    assert APIS["Fetch"].failure(None, ErrorCode.REQUEST_TIMED_OUT, "", 6) is None
    assert APIS["Fetch"].failure(None, ErrorCode.REQUEST_TIMED_OUT, "", 7).error_code == 7


def test_a_failure_can_be_written() -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            answer = api.failure(None, ErrorCode.REQUEST_TIMED_OUT, "late", version)
            if answer is not None:
                assert b"".join(api.encode(answer, version))


def test_every_error_of_an_answer_is_found() -> None:
    fetch = APIS["Fetch"].response
    answer = fetch(
        error_code=0,
        responses=[
            fetch_wire.ResponseTopic(
                topic="t",
                partitions=[
                    fetch_wire.ResponsePartition(partition_index=n, error_code=code, high_watermark=0)
                    for n, code in enumerate((0, 3, 0, 6))
                ],
            )
        ],
    )
    assert list(error_codes(answer)) == [3, 6]
    assert list(error_codes(APIS["InitProducerId"].response(error_code=53, producer_epoch=-1))) == [53]
