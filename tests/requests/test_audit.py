"""What clients change is told to the audit log: who, what, and whether it was done."""

import logging
from typing import Any

import pytest

from bridge import apis
from bridge.apis import (
    alter_configs,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    offset_delete,
)
from bridge.apis.offset_commit import ResponsePartition, ResponseTopic
from bridge.config import INTERNAL
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID
from bridge.requests import audit
from bridge.requests.audit import MAX_LINES
from bridge.requests.session import Session
from bridge.security.principal import user

DONE, LATE, REFUSED = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")


APIS = apis.load()


def tell(key: int, request: Any, response: Any, by: Session) -> None:
    changes = APIS[key].audit
    assert changes is not None
    audit.tell(changes(request, response), by)


def session(listener: str = "CLIENT") -> Session:
    return Session(id=1, peer="10.0.0.1:5", listener=listener, client_id="admin", principal=user("alice"))


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    fields = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "= changed"]
    return [tuple(one[key] for key in ("resource", "name", "change", "detail", "outcome")) for one in fields]


def created(*names: str, code: int = DONE) -> create_topics.Response:
    return create_topics.Response(topics=[create_topics.ResponseTopic(name=name, error_code=code) for name in names])


def wanted(*names: str, only: bool = False) -> create_topics.Request:
    topics = [
        create_topics.RequestTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return create_topics.Request(topics=topics, validate_only=only)


def test_who_has_created_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    tell(19, wanted("a"), created("a"), session())
    assert told(caplog) == [("topic", "a", "created", "", "done")]
    about = caplog.records[0].__dict__["fields"]
    assert (str(about["principal"]), about["peer"], about["listener"]) == ("User:alice", "10.0.0.1:5", "CLIENT")


def test_what_was_refused_or_only_validated_is_no_change_and_what_came_late_may_be_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tell(19, wanted("a"), created("a", code=REFUSED), session())
    tell(19, wanted("a", only=True), created("a"), session())
    assert told(caplog) == []
    tell(19, wanted("a"), created("a", code=LATE), session())
    assert told(caplog) == [("topic", "a", "created", "", "unconfirmed")]


def test_what_another_node_has_passed_on_is_told_there(caplog: pytest.LogCaptureFixture) -> None:
    tell(19, wanted("a"), created("a"), session(INTERNAL))
    assert told(caplog) == []


def test_a_request_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    names = [f"t{number}" for number in range(MAX_LINES + 7)]
    tell(19, wanted(*names), created(*names), session())
    assert len(told(caplog)) == MAX_LINES
    assert caplog.records[-1].__dict__["fields"]["count"] == 7


def _deleted_topics() -> tuple[Any, Any]:
    answers = [
        delete_topics.ResponseTopic(name=name, topic_id=ZERO_UUID, error_code=code)
        for name, code in (("a", DONE), (None, REFUSED))
    ]
    return delete_topics.Request(timeout_ms=1), delete_topics.Response(responses=answers)


def _partitions() -> tuple[Any, Any]:
    topic = create_partitions.RequestTopic(name="a", count=3, assignments=None)
    asked = create_partitions.Request(topics=[topic], timeout_ms=1, validate_only=False)
    return asked, create_partitions.Response(results=[create_partitions.ResponseTopic(name="a", error_code=DONE)])


def _records() -> tuple[Any, Any]:
    partition = delete_records.ResponsePartition(partition_index=2, low_watermark=9, error_code=DONE)
    response = delete_records.Response(topics=[delete_records.ResponseTopic(name="a", partitions=[partition])])
    return delete_records.Request(topics=[], timeout_ms=1), response


def _configs() -> tuple[Any, Any]:
    configs = [alter_configs.Config(name="retention.ms", value="not told")]
    resource = alter_configs.Resource(resource_type=2, resource_name="a", configs=configs)
    result = alter_configs.Result(error_code=DONE, error_message=None, resource_type=2, resource_name="a")
    asked = alter_configs.Request(resources=[resource], validate_only=False)
    return asked, alter_configs.Response(responses=[result])


def _groups() -> tuple[Any, Any]:
    results = [delete_groups.Result(group_id="g", error_code=DONE)]
    return delete_groups.Request(groups_names=["g"]), delete_groups.Response(results=results)


def _offsets() -> tuple[Any, Any]:
    topic = ResponseTopic(name="a", partitions=[ResponsePartition(partition_index=0, error_code=DONE)])
    return offset_delete.Request(group_id="g"), offset_delete.Response(error_code=DONE, topics=[topic])


def _entry(**names: int) -> dict[str, Any]:
    return {
        "resource_type": 2, "resource_name": "a", "principal": "User:bob", "host": "*", "operation": 3,
        "permission_type": 3, **names,
    }  # fmt: skip


def _created_entries() -> tuple[Any, Any]:
    asked = create_acls.Request(creations=[create_acls.Creation(**_entry(resource_pattern_type=3))])
    return asked, create_acls.Response(results=[create_acls.Result(error_code=DONE, error_message=None)])


def _deleted_entries() -> tuple[Any, Any]:
    match = delete_acls.Match(error_code=DONE, error_message=None, **_entry(pattern_type=4))
    result = delete_acls.Result(error_code=DONE, error_message=None, matching_acls=[match])
    return delete_acls.Request(filters=[]), delete_acls.Response(filter_results=[result])


CASES = {
    20: (_deleted_topics, ("topic", "a", "deleted", "")),
    21: (_records, ("partition", "a-2", "records deleted", "before 9")),
    30: (_created_entries, ("topic", "a", "acl created", "allow read to User:bob from *, literal")),
    31: (_deleted_entries, ("topic", "a", "acl deleted", "allow read to User:bob from *, prefixed")),
    33: (_configs, ("topic", "a", "configs changed", "retention.ms")),
    37: (_partitions, ("topic", "a", "partitions added", "3")),
    42: (_groups, ("group", "g", "deleted", "")),
    44: (_configs, ("topic", "a", "configs changed", "retention.ms")),
    47: (_offsets, ("group", "g", "offsets deleted", "a-0")),
}


@pytest.mark.parametrize("key", CASES, ids=lambda key: APIS[key].name)
def test_each_change_is_told(key: int, caplog: pytest.LogCaptureFixture) -> None:
    make, line = CASES[key]
    tell(key, *make(), session())
    assert told(caplog) == [(*line, "done")]
