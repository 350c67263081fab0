"""A read-only file of users with salted hashes, each line good for SCRAM and for PLAIN.

    # a comment
    decoy-secret:<32 random bytes>
    alice:SCRAM-SHA-256$4096:<salt>$<StoredKey>:<ServerKey>

After the name comes the hash as RFC 5803 writes it, as PostgreSQL does; salt and keys in base64. A user may have a line
of each mechanism. The secret is what users that do not exist are shown salts by (`decoys.py`), the same on all nodes.
Without the line each process draws its own, and then two nodes, or two starts, tell such users from others.
"""

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridge.access.files import ReloadedFile
from bridge.security.names import prepared_name
from bridge.security.sasl.credentials import Iterations, ScramCredential, iterations_of
from bridge.security.sasl.decoys import Decoys

_LINE: Final = re.compile(r"(?P<name>.+):(SCRAM-SHA-\d+)\$(\d{1,9}):([^$:]+)\$([^$:]+):([^$:]+)")
_DECOYS: Final = "decoy-secret:"
_FORM: Final = "name:SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey"


class _Users:
    """The users that a password file names."""

    def __init__(self, credentials: Mapping[tuple[str, str], ScramCredential], decoy_secret: bytes | None) -> None:
        self.credentials = credentials
        self.decoy_secret = decoy_secret
        self.iterations = iterations_of(credentials.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Users) and (other.credentials, other.decoy_secret) == (
            self.credentials,
            self.decoy_secret,
        )

    __hash__ = None  # type: ignore[assignment]


class PasswordFile:
    """SCRAM credentials from a file (`credentials.ScramCredentials`)."""

    def __init__(self, path: Path) -> None:
        """StartupError if there is no such file, or anything in it is wrong."""
        self._file = ReloadedFile(path, _parse, "password file")

    async def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """The credential of a prepared name."""
        return self._file.value.credentials.get((mechanism, name))

    def iterations(self, mechanism: str) -> Iterations | None:
        """What the file's credentials of the mechanism have."""
        return self._file.value.iterations.get(mechanism)

    def decoys(self) -> Decoys:
        """Made by the secret that the file has now, or by one of this process alone."""
        return Decoys(self._file.value.decoy_secret or secrets.token_bytes(32))

    def refresh(self) -> bool:
        """Read the file again if it has changed (`files.ReloadedFile`): whether users have."""
        return self._file.refresh()


def line_of(name: str, credential: ScramCredential) -> str:
    """The line of a user, without its end. ValueError if no user can have this name."""
    if prepared_name(name) != name or not _is_written_as_it_is(name):
        raise ValueError(f"{name!r} cannot be a user's name")
    salt, stored, server = (
        b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{name}:{credential.mechanism}${credential.iterations}:{salt}${stored}:{server}"


def _is_written_as_it_is(name: str) -> bool:
    return not name.startswith("#") and name == name.strip()


def secret_line() -> str:
    """A line with a new secret, without its end."""
    return _DECOYS + b64encode(secrets.token_bytes(32)).decode()


def _parse(content: bytes) -> _Users:
    """The users; ValueError names the line, never what is in it. A file without users is refused: it may be cut."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    found: dict[tuple[str, str], ScramCredential] = {}
    secret: bytes | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            if text.startswith(_DECOYS) and ":SCRAM-" not in text:
                secret = _new_secret(text, secret)
                continue
            name, credential = _user(text)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        key = (credential.mechanism, name)
        if key in found:
            raise ValueError(f"line {number}: the user has a line of {credential.mechanism} already")
        found[key] = credential
    if not found:
        raise ValueError("it has no users")
    return _Users(found, secret)


def _new_secret(line: str, before: bytes | None) -> bytes:
    try:
        found = b64decode(line.removeprefix(_DECOYS), validate=True)
    except ValueError:
        raise ValueError("the decoy secret is base64") from None
    if before is not None or len(found) != 32:
        raise ValueError("there is one decoy secret, of 32 bytes")
    return found


def _user(line: str) -> tuple[str, ScramCredential]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"it is not of the form {_FORM}")
    sent_name, mechanism, iterations, *encoded = match.groups()
    name = prepared_name(sent_name)
    if name is None:
        raise ValueError("the user name is too long, or has prohibited characters")
    if not _is_written_as_it_is(name):
        raise ValueError("the user name begins with #, or has a space before or after it")
    try:
        salt, stored, server = (b64decode(part, validate=True) for part in encoded)
    except ValueError:
        raise ValueError("salt and keys are base64") from None
    return name, ScramCredential(mechanism, salt, stored, server, int(iterations))
