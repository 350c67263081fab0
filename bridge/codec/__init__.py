"""The hot byte work; this file chooses the twin that does it.

BRIDGE_CODEC=native asks for the Rust extension and makes its absence an error, =python for the plain Python one; auto,
the default, takes the native one where it is. Both give the same results: `codec._python` defines them.
"""

import os

from bridge.codec._messages import from_base64, timestamp_of, unmark
from bridge.codec.types import (
    CONTROL,
    HEADER_SIZE,
    NO_LIMIT,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Checked,
    Header,
    Payload,
    Plain,
    Rebuild,
    Record,
    Twin,
)
from bridge.errors import SettingsError, StartupError

__all__ = [
    "CONTROL",
    "HEADER_SIZE",
    "NO_LIMIT",
    "NO_PRODUCER",
    "NO_TIMESTAMP",
    "TRANSACTIONAL",
    "TWIN",
    "BatchHeader",
    "Checked",
    "Header",
    "Payload",
    "Plain",
    "Rebuild",
    "Record",
    "Twin",
    "build_batch",
    "check_records",
    "crc32c",
    "decode_payload",
    "encode_payload",
    "encode_plain",
    "from_base64",
    "read_header",
    "read_records",
    "timestamp_of",
    "unmark",
]


def choose(asked: str) -> tuple[str, Twin]:
    """The twin asked for, and its name: `native` or `python`."""
    if asked not in ("auto", "native", "python"):
        raise SettingsError(f"BRIDGE_CODEC={asked} is none of auto, native and python")
    if asked != "python":
        try:
            from bridge.codec import _native
        except ImportError as error:
            if asked == "native":
                raise StartupError(
                    f"BRIDGE_CODEC=native, but the native codec is not there ({error}): install the bridge where cargo "
                    "is, or leave BRIDGE_CODEC out"
                ) from error
        else:
            return "native", _native
    from bridge.codec import _python  # with a package for checksums that takes long to import

    return "python", _python


TWIN, _twin = choose(os.environ.get("BRIDGE_CODEC") or "auto")

read_header = _twin.read_header
encode_payload = _twin.encode_payload
encode_plain = _twin.encode_plain
check_records = _twin.check_records
decode_payload = _twin.decode_payload
build_batch = _twin.build_batch
read_records = _twin.read_records
crc32c = _twin.crc32c
