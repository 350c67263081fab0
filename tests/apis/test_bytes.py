"""The bytes of every message in every version, compared with kafka-python's, in both directions."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.apis import load
from bridge.kafka import message
from bridge.kafka.schema import fields_of
from bridge.requests.api import Api
from tests.kafka import judge
from tests.kafka.strategies import messages, plain
from tests.support.effort import examples

CASES = [
    pytest.param(api, side, version, id=f"{api.name}{side}-v{version}")
    for api in load().values()
    for side in ("Request", "Response")
    for version in range(api.min_version, api.max_version + 1)
]
# kafka-python gives these fields another name and makes sets of their bits
RENAMED = {"authorized_operations", "topic_authorized_operations", "cluster_authorized_operations"}


def _assert_same(ours: Any, theirs: Any, version: int) -> None:
    for field in fields_of(type(ours)):
        if not field.exists(version) or field.name in RENAMED:
            continue
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        if field.tag is not None and mine is None:
            continue  # absent: kafka-python shows its default
        if field.type.name == "array" and field.type.element and field.type.element.message and mine is not None:
            for one, another in zip(mine, other, strict=True):
                _assert_same(one, another, version)
        elif field.type.message is not None and mine is not None:
            _assert_same(mine, other, version)
        elif field.type.name == "records" and field.type.element is not None and mine is not None:
            assert b"".join(mine) == other
        else:
            assert mine == other, field.name


@pytest.mark.parametrize(("api", "side", "version"), CASES)
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_kafka_python_reads_and_writes_the_same(api: Api, side: str, version: int, data: st.DataObject) -> None:
    cls = api.request if side == "Request" else api.response
    made = data.draw(messages(cls, version))
    flexible = api.is_flexible(version)
    ours = bytes(message.encode(made, version, flexible))
    theirs = judge.decode(f"{api.name}{side}", ours, version)
    _assert_same(made, theirs, version)
    written = judge.encode(f"{api.name}{side}", theirs, version)
    assert written == ours
    assert plain(message.decode(cls, written, version, flexible)) == plain(made)
