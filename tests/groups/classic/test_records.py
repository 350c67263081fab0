"""The stored bytes of a group."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.classic.records import GroupRecord, MemberRecord, decode, encode
from bridge.groups.store.records import BadRecord

INT32 = st.integers(-(2**31), 2**31 - 1)
MEMBERS = st.builds(
    MemberRecord,
    id=st.text(),
    instance_id=st.none() | st.text(),
    client_id=st.text(),
    client_host=st.text(),
    session_timeout_ms=INT32,
    rebalance_timeout_ms=INT32,
    subscription=st.binary(),
    assignment=st.binary(),
)
GROUPS = st.builds(
    GroupRecord,
    generation=INT32,
    protocol_type=st.none() | st.text(),
    protocol_name=st.none() | st.text(),
    leader=st.none() | st.text(),
    since_ms=st.integers(0, 2**62),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


@given(GROUPS)
def test_what_is_written_is_read(record: GroupRecord) -> None:
    assert decode(encode(record)) == record


def test_the_form_that_other_versions_will_find() -> None:
    member = MemberRecord("m", None, "c", "/h", 1, 2, b"s", b"a")
    assert json.loads(encode(GroupRecord(3, "consumer", "range", "m", 4, (member,)))) == {
        "v": 1,
        "generation": 3,
        "type": "consumer",
        "protocol": "range",
        "leader": "m",
        "since": 4,
        "members": [
            {
                "id": "m",
                "instance": None,
                "client": "c",
                "host": "/h",
                "session": 1,
                "rebalance": 2,
                "subscription": "cw==",
                "assignment": "YQ==",
            }
        ],
    }


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"nonsense", b"\xff", b'{"v":2}', b'{"v":1}', b'{"v":1,"members":3}']
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(data)
