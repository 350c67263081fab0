"""The Envelope against Kafka's own definitions."""

from __future__ import annotations

import pytest

from bridge.kafka import envelope, message
from bridge.kafka.message import fields_of
from bridge.kafka.primitives import DecodeError
from tests.kafka import judge


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("EnvelopeRequest", envelope.Request),
        ("EnvelopeResponse", envelope.Response),
        ("DefaultPrincipalData", envelope.Principal),
    ],
)
def test_the_fields_are_kafka_s(name: str, ours: type) -> None:
    theirs = judge.definition(name)
    assert theirs.get("apiKey", envelope.KEY) == envelope.KEY
    assert judge.versions(theirs["validVersions"]) == range(envelope.VERSION, envelope.VERSION + 1)
    told = [(one["name"].lower(), one["type"], "nullableVersions" in one) for one in theirs["fields"]]
    found = [one for one in fields_of(ours) if one.exists(envelope.VERSION) and one.tag is None]
    assert [(f.name.replace("_", ""), f.type.name, f.nullable(0)) for f in found] == told


def test_a_principal_begins_with_its_version() -> None:
    anonymous = envelope.Principal(type="User", name="ANONYMOUS")
    encoded = envelope.encode_principal(anonymous)
    assert encoded == b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"
    assert envelope.decode_principal(encoded) == anonymous


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\1\x05User\x02x\0\0", b"\0\0\x05Us"])
def test_what_is_no_principal_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        envelope.decode_principal(data)


@pytest.mark.parametrize("host", ["10.1.2.3", "::1", "2001:db8::7"])
def test_an_address_comes_back(host: str) -> None:
    assert envelope.decode_host(envelope.encode_host(host)) == host


def test_what_is_no_address_is_none() -> None:
    assert envelope.encode_host("bridge.example") == b""
    assert envelope.decode_host(b"") == ""
    with pytest.raises(DecodeError):
        envelope.decode_host(b"\1\2\3")


def test_an_envelope_comes_back() -> None:
    sent = envelope.Request(request_data=b"abc", request_principal=None, client_host_address=b"\x7f\0\0\1")
    assert message.decode(envelope.Request, message.encode(sent, 0, True), 0, True) == sent


def test_it_may_tell_of_the_client_s_connection() -> None:
    sent = envelope.Request(
        request_data=b"abc", request_principal=None, client_host_address=b"", sender=1, connection=2, connected_ms=3
    )
    assert message.decode(envelope.Request, message.encode(sent, 0, True), 0, True) == sent


def test_one_of_a_namespace_is_of_a_version_of_its_own() -> None:
    sent = envelope.Request(
        request_data=b"abc", request_principal=None, client_host_address=b"", namespace="acme/orders"
    )
    encoded = message.encode(sent, envelope.OF_A_NAMESPACE, True)
    assert message.decode(envelope.Request, encoded, envelope.OF_A_NAMESPACE, True) == sent
