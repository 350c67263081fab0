"""What a failed TLS handshake says of who is at the other end."""

import ssl
from typing import Final

_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")


def speaks_no_tls(error: OSError) -> bool:
    """Whether it seems to speak no TLS at all: it answers with bytes of its own, or hangs up."""
    if isinstance(error, ssl.SSLError):
        return error.reason in _NOT_TLS
    return isinstance(error, ConnectionResetError)
