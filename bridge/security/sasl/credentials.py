"""What a log-in asks for: SCRAM credentials by name, and whether a password is right.

A file of users, users kept in Pulsar, or a system of the operator's own can answer. Names are prepared (SASLprep, RFC
4013) before they are asked for, so what keeps users by name prepares names when it stores them.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from bridge.errors import BridgeError
from bridge.security.principal import Principal

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Kafka's SCRAM mechanisms by name, and the hash function of each as hashlib names it."""
KEY_BYTES: Final = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Kafka's bounds (ScramMechanism). A higher count would make each log-in by PLAIN a load."""
MIN_SALT_BYTES: Final = 12
"""Kafka's tools make salts of about 25 bytes."""

_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ALPHABETS: Final = ("0123456789abcdef", _BASE_36, _BASE_36 + _BASE_36[10:].upper())
_KAFKA_SALTS: Final = range(24, 27)
_MOST_SHAPES: Final = 32
"""Each log-in looks at all of them."""


class CredentialsUnavailable(BridgeError):
    """Credentials cannot be asked for now; the client may try again."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password (RFC 5802 section 3). ValueError if it breaks the bounds above."""

    mechanism: str
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def __post_init__(self) -> None:
        length = KEY_BYTES.get(self.mechanism)
        if length is None:
            raise ValueError(f"the mechanism is one of {', '.join(KEY_BYTES)}")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {self.iterations}")
        if len(self.salt) < MIN_SALT_BYTES:
            raise ValueError(f"a salt has at least {MIN_SALT_BYTES} bytes, this one has {len(self.salt)}")
        if len(self.stored_key) != length or len(self.server_key) != length:
            raise ValueError(f"StoredKey and ServerKey of {self.mechanism} have {length} bytes")


def salt_text(random_bits: int) -> bytes:
    """A salt of the form that Kafka's tools make: 130 random bits in base 36 (`ScramFormatter.secureRandomString`)."""
    number, digits = random_bits % (1 << 130), ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return (digits or "0").encode()


class Shape(NamedTuple):
    """What SCRAM shows of a credential before anything is proved, but for the bits that are random."""

    alphabet: str
    """What the salt is made of; empty for any bytes."""
    salt_bytes: int
    """0: as Kafka's tools make it, which is not always equally long."""
    iterations: int

    def salt(self, random: bytes) -> bytes:
        """A salt of this shape; `random`: at least as many bytes as it has, and 17."""
        if not self.salt_bytes:
            return salt_text(int.from_bytes(random[:17]))
        if not self.alphabet:
            return random[: self.salt_bytes]
        # a byte is no multiple of the alphabet, which shows in a few thousand salts
        number, base, digits = int.from_bytes(random[: self.salt_bytes + 16]), len(self.alphabet), ""
        for _ in range(self.salt_bytes):
            number, digit = divmod(number, base)
            digits += self.alphabet[digit]
        return digits.encode()


def shape_of(credential: ScramCredential) -> Shape:
    """That of a stored credential, whatever tool has made it."""
    salt = credential.salt
    alphabet = next((one for one in _ALPHABETS if not salt.translate(None, one.encode())), "")
    of_kafka = alphabet == _BASE_36 and len(salt) in _KAFKA_SALTS
    return Shape("" if of_kafka else alphabet, 0 if of_kafka else len(salt), credential.iterations)


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """SaltedPassword (RFC 5802 section 3): what takes the time."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password, salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a SaltedPassword, which is what AlterUserScramCredentials sends (KIP-554)."""
    name = SCRAM_HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    server_key = hmac.digest(salted, b"Server Key", name)
    return ScramCredential(mechanism, salt, hashlib.new(name, client_key).digest(), server_key, iterations)


class Iterations(NamedTuple):
    """What the credentials of one mechanism are like, so that an unknown user is no cheaper and looks no different."""

    most: int
    """What the costliest has: checking any password by PLAIN takes as many."""
    shapes: Mapping[Shape, int] = MappingProxyType({})
    """How many have which: SCRAM shows one of them to an unknown user."""


def iterations_of(credentials: Iterable[ScramCredential]) -> dict[str, Iterations]:
    """The iterations by mechanism, and the shapes that most of them have."""
    counts: dict[str, Counter[Shape]] = {}
    for credential in credentials:
        counts.setdefault(credential.mechanism, Counter())[shape_of(credential)] += 1
    return {
        mechanism: Iterations(
            max(shape.iterations for shape in found),
            dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:_MOST_SHAPES]),
        )
        for mechanism, found in counts.items()
    }


class ScramCredentials(Protocol):
    """A source of SCRAM credentials by user name."""

    async def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """The credential of a prepared name; None if the user has none of this mechanism, or there is no such user.

        CredentialsUnavailable if that cannot be known now.
        """

    def iterations(self, mechanism: str) -> Iterations | None:
        """What its credentials of the mechanism have (`iterations_of`); None if there are none."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A right password: whose it is, until when it holds, and the token if the password is one."""

    principal: Principal
    expires_at: float | None = None
    token: str | None = field(default=None, repr=False)


class Passwords(Protocol):
    """A source that checks passwords."""

    async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
        """Who logs in with this password; None for a wrong one and for an unknown user, at the same cost.

        CredentialsUnavailable if that cannot be known now. `name` is prepared, the password is as the client sent it.
        """
