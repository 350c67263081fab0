"""User names and passwords as SASL compares them: prepared by SASLprep (RFC 4013), and of bounded length."""

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

MAX_NAME_BYTES: Final = 512
"""RFC 4616 asks for 255 at least. Preparing a name that is not ASCII takes 2 µs a character."""
MAX_PASSWORD_BYTES: Final = 16384
"""A JWT may be a password (`token:` of Pulsar's users)."""

_PROHIBITED: Final = (
    stringprep.in_table_a1,  # unassigned in Unicode 3.2
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)
"""What no prepared text has (RFC 4013, 2.3 and 2.5)."""


def prepared(text: str) -> str | None:
    """The prepared text; None if it holds what SASLprep prohibits, or nothing."""
    if text.isascii() and text.isprintable():
        return text or None
    mapped = "".join(" " if stringprep.in_table_c12(one) else one for one in text if not stringprep.in_table_b1(one))
    normal = ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_in(one) for one in normal for is_in in _PROHIBITED) or not _is_one_direction(normal):
        return None
    return normal or None


def _is_one_direction(text: str) -> bool:
    """Whether it is written from one side (RFC 3454, 6): from right to left as a whole, or not at all."""
    from_right = [stringprep.in_table_d1(one) for one in text]
    if not any(from_right):
        return True
    return from_right[0] and from_right[-1] and not any(map(stringprep.in_table_d2, text))


def prepared_name(name: str) -> str | None:
    """The user name by which credentials are kept; None if no user can have it."""
    return prepared(name) if len(name.encode(errors="surrogatepass")) <= MAX_NAME_BYTES else None


def password_forms(password: str) -> tuple[bytes, ...]:
    """What the password may have been when its hash was made: prepared, or as typed.

    RFC 5802 prepares passwords. Kafka's own tools and clients do not, and for most passwords it makes no difference.
    """
    raw = password.encode(errors="surrogatepass")
    if len(raw) > MAX_NAME_BYTES:  # a token; no other password is as long
        return (raw,)
    prepped = prepared(password)
    return (raw,) if prepped is None or prepped == password else (prepped.encode(), raw)
