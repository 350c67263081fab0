"""User names and passwords as SASL compares them: prepared by SASLprep (RFC 4013), and of bounded length."""

from typing import Final

MAX_NAME_BYTES: Final = 512
"""RFC 4616 asks for 255 at least. Preparing a name that is not ASCII takes 2 µs a character."""
MAX_PASSWORD_BYTES: Final = 16384
"""A JWT may be a password (`token:` of Pulsar's users)."""


def prepared(text: str) -> str | None:
    """The prepared text; None if it holds what SASLprep prohibits, or nothing."""
    if text.isascii() and text.isprintable():
        return text or None
    from scramp.utils import ScramException, saslprep  # no start without such names needs it

    try:
        return str(saslprep(text)) or None
    except ScramException:
        return None


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
