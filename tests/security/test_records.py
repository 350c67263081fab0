"""Kept records of users and permissions: what they make, in any order, and what is not understood."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.left_out import MAX_RUNS, Run
from bridge.security.quotas.entities import CLIENT_ID, USER, QuotaKey, checked_entity
from bridge.security.records import (
    MARKER,
    Change,
    Kept,
    SecurityState,
    aborted_key,
    aborted_records,
    acl_key,
    acl_record,
    config_key,
    config_record,
    quota_key,
    quota_record,
    secret_record,
    user_key,
    user_record,
)
from bridge.security.sasl.credentials import ScramCredential
from tests.security.users import credential

ALICE = credential("SCRAM-SHA-256", "secret")
READ = AccessControlEntry(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)
DENIED = READ._replace(permission=Permission.DENY)
NAMES = st.text(st.characters(min_codepoint=0x20, codec="utf-8"), min_size=1, max_size=20)


def state_of(*records: Kept) -> SecurityState:
    state = SecurityState()
    for key, value in records:
        state.apply(key, value)
    return state


@settings(deadline=None)
@given(name=NAMES, made=st.sampled_from([ALICE, credential("SCRAM-SHA-512", "secret")]))
def test_a_user_is_what_was_kept(name: str, made: ScramCredential) -> None:
    record = user_record(name, made)
    assert record.key == user_key(made.mechanism, name)
    state = state_of(record)
    assert state.credentials == {(made.mechanism, name): made}
    assert state.apply(record.key, None) is Change.USERS
    assert not state.credentials and not state.unknown


@settings(deadline=None)
@given(name=NAMES, principal=NAMES, host=NAMES)
def test_an_entry_is_what_was_kept(name: str, principal: str, host: str) -> None:
    entry = READ._replace(name=name, principal=f"User:{principal}", host=host)
    state = state_of(acl_record(entry))
    assert list(state.entries) == [entry]
    assert type(next(iter(state.entries)).operation) is Operation
    assert state.apply(acl_key(entry), None) is Change.ACLS
    assert not state.entries and not state.unknown


def test_the_last_record_of_a_key_counts() -> None:
    other = credential("SCRAM-SHA-256", "other", 8192)
    state = state_of(user_record("alice", ALICE), acl_record(READ), user_record("alice", other), acl_record(READ))
    assert state.credentials == {("SCRAM-SHA-256", "alice"): other}
    assert list(state.entries) == [READ]
    assert state.live_records == 2


def test_the_iterations_follow_the_users() -> None:
    state = state_of(user_record("alice", ALICE))
    assert (found := state.iterations("SCRAM-SHA-256")) and found.most == 4096
    state.apply(*user_record("bob", credential("SCRAM-SHA-256", "x", 8192)))
    assert (found := state.iterations("SCRAM-SHA-256")) and found.most == 8192
    assert state.iterations("SCRAM-SHA-512") is None


def test_a_marker_and_a_deletion_of_nothing_change_nothing() -> None:
    state = SecurityState()
    assert state.apply(MARKER, b"1") is Change.NOTHING
    state.apply(user_key("SCRAM-SHA-256", "x"), None)
    state.apply("later:[1]", None)
    assert state.live_records == 0


@pytest.mark.parametrize(
    "key",
    [
        "later:[1]", "", ":", "user", "user:", "user:{}", "user:[]", 'user:["SCRAM-SHA-256"]', 'user:["a",1]',
        'user: ["SCRAM-SHA-256","alice"]', "user:" + "[" * 100_000, "acl:[]", "acl:[1,2,3,4,5,6,7]",
        'acl:[2,"orders",3,"User:alice","*",3]', 'acl:[2,null,3,"User:alice","*",3,3]',
        'acl:[1,"orders",3,"User:alice","*",3,3]', 'acl: [2,"orders",3,"User:alice","*",3,3]',
        'acl:[[],"orders",3,"User:alice","*",3,3]', 'acl:[2,"orders",3,5,"*",3,3]',
        'acl:[2.0,"orders",3,"User:alice","*",3,3]',
    ],
)  # fmt: skip
def test_an_unknown_key_is_kept_apart_until_it_is_deleted(key: str) -> None:
    state = state_of(Kept(key, b'{"level":1}'))
    assert list(state.unknown) == [key]
    assert not state.credentials and not state.entries
    state.apply(key, None)
    assert not state.unknown


@pytest.mark.parametrize("value", [b"", b"?", b"[]", b'{"level":2}', b'{"level":1}', b"\xff", b"[" * 100_000])
def test_a_user_of_an_unknown_level_cannot_log_in_until_it_is_written_again(value: bytes) -> None:
    known = user_record("alice", ALICE)
    state = state_of(known, Kept(known.key, value))
    assert not state.credentials
    assert list(state.unknown) == [known.key]
    assert state.iterations("SCRAM-SHA-256") is None
    state.apply(*known)
    assert state.credentials and not state.unknown


@pytest.mark.parametrize(
    "wrong", [{"salt": "?"}, {"salt": 1}, {"stored_key": ""}, {"iterations": "4096"}, {"iterations": True}]
)
def test_a_damaged_user_cannot_log_in_and_nothing_of_it_is_told(wrong: dict[str, object]) -> None:
    key, value = user_record("alice", ALICE)
    assert value is not None
    state = state_of(Kept(key, json.dumps(json.loads(value) | wrong).encode()))
    assert not state.credentials
    assert state.unknown == {key: "its value is no credential"}


def test_an_entry_of_an_unknown_level_counts_if_it_denies() -> None:
    state = state_of(Kept(acl_key(READ), b'{"level":2}'), Kept(acl_key(DENIED), b'{"level":2}'))
    assert list(state.entries) == [DENIED]
    assert state.unknown.keys() == {acl_key(READ), acl_key(DENIED)}


@settings(deadline=None)
@given(key=st.text(max_size=40), value=st.none() | st.binary(max_size=40))
def test_whatever_is_read_nothing_is_raised(key: str, value: bytes | None) -> None:
    for prefix in ("", "user:", "acl:", 'user:["SCRAM-SHA-256",', "acl:[2,"):
        state_of(Kept(prefix + key, value))


def test_the_secret_of_decoys_is_what_was_kept() -> None:
    state = state_of(secret_record(b"s" * 16), secret_record(b"t" * 32))
    assert state.decoy_secret == b"t" * 32
    key = secret_record(b"s" * 16).key
    state.apply(key, b'{"level":1,"secret":"c2hvcnQ="}')
    assert state.decoy_secret == b"t" * 32, "one that is not understood changes nothing"
    assert state.unknown == {key: "its value is no secret"}
    state.apply(key, None)
    assert state.decoy_secret is None and not state.unknown


def test_no_representation_shows_a_value() -> None:
    record = user_record("alice", ALICE)
    assert "alice" in repr(record) and "salt" not in repr(record)
    assert "deleted" in repr(Kept(record.key))


@settings(deadline=None)
@given(name=NAMES, client_id=st.none() | NAMES, value=st.integers(1, 2**53))
def test_a_quota_is_what_was_kept(name: str, client_id: str | None, value: int) -> None:
    entity = checked_entity([(USER, name), (CLIENT_ID, client_id)])
    state = state_of(quota_record(entity, QuotaKey.FETCH, float(value)))
    assert state.quotas == {(entity, QuotaKey.FETCH): value}
    assert state.apply(quota_key(entity, QuotaKey.FETCH), None) is Change.QUOTAS
    assert not state.quotas and not state.unknown and not state.live_records


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ('quota:["no_such",[["user","a"]]]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",[["planet","a"]]]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",[["user",["a"]]]]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",[["user",5]]]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",[["user", "a"]]]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate"]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",5]', '{"level":1,"value":5}'),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":2,"value":5}'),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":1,"value":-5}'),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":1,"value":"5"}'),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":1,"value":true}'),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":1,"value":1' + "0" * 400 + "}"),
        ('quota:["producer_byte_rate",[["user","a"]]]', '{"level":1,"value":NaN}'),
    ],
)
def test_a_quota_that_is_not_understood_does_not_count(key: str, value: str) -> None:
    state = SecurityState()
    state.apply(key, value.encode())
    assert not state.quotas and list(state.unknown) == [key]
    state.apply(key, None)
    assert not state.unknown


def test_a_groups_config_is_what_was_kept() -> None:
    kept = config_record("public/default", "g", "share.auto.offset.reset", "earliest")
    state = state_of(kept, config_record("public/other", "g", "share.auto.offset.reset", "latest"))
    assert state.group_configs == {
        ("public/default", "g"): {"share.auto.offset.reset": "earliest"},
        ("public/other", "g"): {"share.auto.offset.reset": "latest"},
    }
    assert set(state.differences(SecurityState())) >= {(kept.key, "stored")}
    state.apply(kept.key, None)
    assert list(state.group_configs) == [("public/other", "g")] and state.live_records == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ('config:["n","g","a"]', '{"level":1,"value":5}'),
        ('config:["n","g","a"]', '{"level":2,"value":"x"}'),
        ('config:["n","g", "a"]', '{"level":1,"value":"x"}'),
        ('config:["n","g",5]', '{"level":1,"value":"x"}'),
        ('config:["n","g"]', '{"level":1,"value":"x"}'),
    ],
)
def test_a_config_that_is_not_understood_does_not_count_and_replaces_the_former_one(key: str, value: str) -> None:
    state = state_of(config_record("n", "g", "a", "former"))
    state.apply(key, value.encode())
    assert list(state.unknown) == [key]
    own = config_key("n", "g", "a") == key
    assert state.group_configs == ({} if own else {("n", "g"): {"a": "former"}})


TOPIC_ID = "ab" * 16


def test_what_kop_aborted_is_what_was_kept() -> None:
    runs = [Run(3 * at, 3 * at + 1) for at in range(2 * MAX_RUNS + 1)]
    first, second, third = aborted_records(TOPIC_ID, 3, runs)
    state = state_of(third, first, second, *aborted_records(TOPIC_ID, 4, runs[:1]))
    found = state.left_out[TOPIC_ID, 3]
    assert found.runs() == runs
    assert 0 in found and 3 * MAX_RUNS in found and 1 not in found
    assert state.live_records == 4
    assert {(first.key, "stored"), (third.key, "stored")} <= set(state.differences(SecurityState()))
    again = aborted_records(TOPIC_ID, 3, runs[:2], 3)
    assert [one.value is None for one in again] == [False, True, True]
    for record in again:
        state.apply(*record)
    assert state.left_out[TOPIC_ID, 3].runs() == runs[:2]
    state.apply(first.key, None)
    assert list(state.left_out) == [(TOPIC_ID, 4)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (aborted_key(TOPIC_ID, 3, 0), '{"level":1,"runs":[1]}'),
        (aborted_key(TOPIC_ID, 3, 0), '{"level":1}'),
        (aborted_key(TOPIC_ID, 3, 0), '{"level":2,"runs":[1,1]}'),
        (aborted_key(TOPIC_ID, 3, 1), '{"level":2,"runs":[1,1]}'),
        (f'aborted:["{TOPIC_ID}",3, 0]', '{"level":1,"runs":[1,1]}'),
        (f'aborted:["{TOPIC_ID}",3]', '{"level":1,"runs":[1,1]}'),
        (f'aborted:["{TOPIC_ID}",true,0]', '{"level":1,"runs":[1,1]}'),
        (f'aborted:["{TOPIC_ID}","3",0]', '{"level":1,"runs":[1,1]}'),
    ],
)
def test_what_is_not_understood_of_kop_s_makes_nothing_visible(key: str, value: str) -> None:
    state = state_of(*aborted_records(TOPIC_ID, 3, [Run(5, 7)]))
    state.apply(key, value.encode())
    assert list(state.unknown) == [key]
    assert {of: found.runs() for of, found in state.left_out.items()} == {(TOPIC_ID, 3): [Run(5, 7)]}


def test_a_newer_form_of_a_quota_replaces_the_former_one() -> None:
    entity = checked_entity([(USER, "a")])
    state = state_of(quota_record(entity, QuotaKey.PRODUCE, 5.0))
    state.apply(quota_key(entity, QuotaKey.PRODUCE), b'{"level":9}')
    assert not state.quotas and len(state.unknown) == 1
