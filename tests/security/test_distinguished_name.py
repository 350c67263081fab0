"""Names of certificates. The expected texts are what Java 17 wrote for such certificates."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameOID as N
from cryptography.x509 import ObjectIdentifier
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.security.distinguished_name import of_certificate
from tests.security.certificates import certificate
from tests.support.effort import examples


def written(*rdns: list[tuple[ObjectIdentifier, str]]) -> str:
    parts = [x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for oid, value in rdn]) for rdn in rdns]
    return of_certificate(certificate(x509.Name(parts)).public_bytes(Encoding.DER))


def names(*values: str) -> list[list[tuple[ObjectIdentifier, str]]]:
    return [[(N.COMMON_NAME, value)] for value in values]


def test_the_most_specific_attribute_is_first_and_keywords_are_those_of_rfc_2253() -> None:
    usual = [[(N.COUNTRY_NAME, "NO")], [(N.ORGANIZATION_NAME, "Example")], [(N.ORGANIZATIONAL_UNIT_NAME, "Payments")]]
    assert written(*usual, [(N.COMMON_NAME, "Alice")]) == "CN=Alice,OU=Payments,O=Example,C=NO"
    parts = [(N.DOMAIN_COMPONENT, "org"), (N.STATE_OR_PROVINCE_NAME, "Viken"), (N.LOCALITY_NAME, "Oslo")]
    parts += [(N.STREET_ADDRESS, "Storgata 1"), (N.USER_ID, "alice")]
    assert written(*([part] for part in parts)) == "UID=alice,STREET=Storgata 1,L=Oslo,ST=Viken,DC=org"


def test_other_attributes_are_written_as_bytes() -> None:
    assert written([(N.EMAIL_ADDRESS, "a@example.org")]) == "1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267"
    assert written([(N.SURNAME, "Bérg")]) == "2.5.4.4=#0c0542c3a97267"
    assert written([(N.SERIAL_NUMBER, "12")]) == "2.5.4.5=#13023132"
    assert written([(ObjectIdentifier("1.2.3.4"), "xyz" * 60)]) == "1.2.3.4=#0c81b4" + "78797a" * 60


def test_an_rdn_may_have_several_attributes_in_the_order_of_their_encoding() -> None:
    rdn = [(N.COMMON_NAME, "Alice"), (N.USER_ID, "al"), (N.ORGANIZATIONAL_UNIT_NAME, "x")]
    assert written([(N.ORGANIZATION_NAME, "Example")], rdn) == "OU=x+CN=Alice+UID=al,O=Example"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('a,b=c+d<e>f#g;h"i\\j', r"a\,b\=c\+d\<e\>f\#g\;h\"i\\j"),
        ("#x", r"\#x"),
        (" x  y ", r"\ x  y\ "),
        ("  ", r"\ \ "),
        ("a\0b", r"a\00b"),
        ("a\r", "a\\\r"),
        ("a\nb\t\x7f", "a\nb\t\x7f"),
        ("a*b@c!d_e&f%g$h|i~j`k{l}m[n]o^p", "a*b@c!d_e&f%g$h|i~j`k{l}m[n]o^p"),
        ("Ålice 日本 😀 e\u0301 a\u00a0b", "Ålice 日本 😀 e\u0301 a\u00a0b"),
        ("Alice,OU=admins", r"Alice\,OU\=admins"),
    ],
)
def test_what_could_pass_for_another_attribute_is_escaped(value: str, expected: str) -> None:
    assert written(*names(value)) == f"CN={expected}"


@given(st.text(min_size=1, max_size=12), st.text('ab,=+ \\#";\r\0', min_size=1, max_size=12))
@settings(max_examples=examples(60), deadline=None)
def test_two_names_are_written_alike_only_if_they_are_one(one: str, other: str) -> None:
    assert (written(*names(one)) == written(*names(other))) == (one == other)
    assert written(*names(one, other)) != written(*names(f"{other},CN={one}"))


def test_a_certificate_without_a_name_has_an_empty_one() -> None:
    assert written() == ""


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_error(der: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        of_certificate(der)


CN, SURNAME = b"\x06\x03U\x04\x03\x0c\x05Alice", b"\x06\x03U\x04\x04\x0c\x01B"
"""Attributes as they are encoded: an OBJECT IDENTIFIER, a UTF8String."""


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x72"), (SURNAME, SURNAME.replace(b"\x0c", b"\x03"))],
    ids=["a version that is not", "a name that is a bit string"],
)
def test_what_the_library_tells_by_other_exceptions_is_a_value_error(sound: bytes, damaged: bytes) -> None:
    assert DER.count(sound) == 1
    with pytest.raises(ValueError, match=r"."):
        of_certificate(DER.replace(sound, damaged))


def test_what_the_library_warns_of_is_read_in_silence() -> None:
    """Warnings are errors in tests."""
    assert of_certificate(DER.replace(CN, CN.replace(b"U\x04\x03", b"U\x04\x06"))) == "2.5.4.4=#0c0142,C=Alice"
    serial = DER.index(b"\xa0\x03\x02\x01\x02") + 7  # behind the version and its own type and length
    assert of_certificate(DER[:serial] + b"\x80" + DER[serial + 1 :]) == "2.5.4.4=#0c0142,CN=Alice"


@given(st.integers(min_value=0), st.integers(0, 255))
@settings(max_examples=examples(300), deadline=None)
def test_a_damaged_certificate_has_a_name_or_is_a_value_error(place: int, value: int) -> None:
    der = bytearray(DER)
    der[place % len(der)] = value
    try:
        assert isinstance(of_certificate(bytes(der)), str)
    except ValueError as error:
        assert error


DER = certificate(
    x509.Name([x509.NameAttribute(N.COMMON_NAME, "Alice"), x509.NameAttribute(N.SURNAME, "B")])
).public_bytes(Encoding.DER)
