"""Which entities may have which quotas, with the texts of Kafka's ClientQuotaControlManager."""

import pytest

from bridge.security.quotas.entities import (
    CLIENT_ID,
    IP,
    MAX_NAME_CHARACTERS,
    USER,
    InvalidQuota,
    QuotaKey,
    address,
    checked_entity,
    checked_key,
)

ALICE = checked_entity([(USER, "alice")])
HOST = checked_entity([(IP, "10.0.0.1")])


def test_the_order_in_which_an_entity_is_named_says_nothing() -> None:
    assert checked_entity([(USER, "a"), (CLIENT_ID, None)]) == checked_entity([(CLIENT_ID, None), (USER, "a")])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("planet", "x")], "Unhandled client quota entity type: planet"),
        ([(USER, "")], "Empty user not supported"),
        ([(USER, "a"), (USER, "b")], "Invalid client quota entity, duplicate entity entry user"),
        ([(IP, "1.2.3.4"), (USER, "a")], "Invalid quota entity combination, IP entity shouldnot be combined"),
        ([(IP, "x y")], "x y is not a valid IP or resolvable host."),
        ([(USER, "x" * (MAX_NAME_CHARACTERS + 1))], "A user of more than 1024 characters is not supported"),
    ],
)
def test_what_is_no_entity(parts: list[tuple[str, str | None]], text: str) -> None:
    with pytest.raises(InvalidQuota) as raised:
        checked_entity(parts)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "Quota producer_byte_rate must be greater than 0"),
        (-1.0, "Quota producer_byte_rate must be greater than 0"),
        (float("nan"), "Quota producer_byte_rate must be greater than 0"),
        (1.5, "producer_byte_rate cannot be a fractional value."),
        (1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        (float("inf"), "Proposed value for producer_byte_rate is too large for a LONG."),
    ],
)
def test_what_is_no_rate_of_bytes(value: float, text: str) -> None:
    with pytest.raises(InvalidQuota) as raised:
        checked_key(ALICE, "producer_byte_rate", value)
    assert str(raised.value) == text


def test_users_and_addresses_have_quotas_of_their_own() -> None:
    assert checked_key(ALICE, "request_percentage", 12.5) is QuotaKey.REQUEST
    assert checked_key(HOST, "connection_creation_rate", 3) is QuotaKey.CONNECTION
    for entity, key in ((HOST, "producer_byte_rate"), (ALICE, "connection_creation_rate"), (ALICE, "no_such")):
        with pytest.raises(InvalidQuota, match=f"Invalid configuration key {key}"):
            checked_key(entity, key, 1)
    for value in (2.0**31, 0.5, float("inf")):
        with pytest.raises(InvalidQuota):
            checked_key(HOST, "connection_creation_rate", value)
    with pytest.raises(InvalidQuota):
        checked_key(ALICE, "request_percentage", float("inf"))


def test_an_address_is_the_same_however_it_is_written() -> None:
    assert address("::ffff:10.0.0.1") == "10.0.0.1"
    assert address("0:0:0:0:0:0:0:1") == address("::1") == "::1"
    assert address("example.com") is None
