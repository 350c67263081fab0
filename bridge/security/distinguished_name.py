"""The name of a client's certificate as Kafka writes it: RFC 2253, by Java's X500Principal.

It differs from RFC 4514's form, which Python's libraries write: `=` and `#` are escaped wherever they are, and an
attribute that RFC 2253 has no keyword for is written as the bytes of its value. Rules and ACLs written for Kafka expect
that.
"""

import warnings
from typing import Final

from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}  # fmt: skip
_UTF8, _PRINTABLE, _T61, _IA5 = 0x0C, 0x13, 0x14, 0x16
_TEXTS: Final = frozenset((_UTF8, _PRINTABLE, _T61, _IA5))
"""The types of ASN.1 that are written as text. Others are written as bytes, BMPString too, which Java garbles."""
_ESCAPED: Final = {ord(char): f"\\{char}" for char in ',=+<>#;"\\'} | {0: "\\00"}
_EDGES: Final = " \r"


def of_certificate(der: bytes) -> str:
    """The subject of a certificate, most specific attribute first. ValueError if it cannot be read."""
    try:
        with warnings.catch_warnings():  # whatever is unusual, such as a country of three letters
            warnings.simplefilter("ignore")
            subject = x509.load_der_x509_certificate(der).subject
            names = ["+".join(_attribute(attribute) for attribute in rdn) for rdn in subject.rdns]
    except (x509.InvalidVersion, TypeError) as error:  # TypeError: a name that is a bit string
        raise ValueError(str(error)) from None
    return ",".join(reversed(names))


def _attribute(attribute: "x509.NameAttribute[str | bytes]") -> str:
    oid = attribute.oid.dotted_string
    keyword, value = _KEYWORDS.get(oid), attribute.value
    encoded = _encoded_value(attribute)
    if keyword is None or not isinstance(value, str) or encoded[0] not in _TEXTS:
        return f"{keyword or oid}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value)}"


def _escaped(value: str) -> str:
    inner = value.strip(_EDGES)
    start = value.index(inner) if inner else len(value)
    before, after = value[:start], value[start + len(inner) :]
    edges = ["".join(f"\\{char}" for char in edge) for edge in (before, after)]
    return inner.translate(_ESCAPED).join(edges)


def _encoded_value(attribute: "x509.NameAttribute[str | bytes]") -> bytes:
    """The value's DER, out of a name of this attribute alone: SEQUENCE { SET { SEQUENCE { type, value } } }."""
    der = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        der = _split(der)[0]
    return _split(der)[1]


def _split(der: bytes) -> tuple[bytes, bytes]:
    """The content of the first element, and what follows it."""
    length, start = der[1], 2
    if length >= 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    return der[start : start + length], der[start + length :]
