"""Checks passwords against SCRAM credentials, so that one salted hash of a user serves SCRAM and PLAIN.

Every check costs the same, for any user and whatever is wrong: of each mechanism that any user has, as many iterations
as the costliest credential. What a password itself costs depends on the password alone. One that was right before is
known again by a digest and costs no hash: its sender learns nothing by that, for it is let in.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from bridge.security.names import password_forms
from bridge.security.principal import user
from bridge.security.sasl.credentials import (
    MIN_ITERATIONS,
    SCRAM_HASHES,
    Iterations,
    LoginAttempt,
    ScramCredential,
    ScramCredentials,
    credential_of,
    salted_password,
)
from bridge.security.sasl.decoys import Decoys

Run = Callable[[Callable[[], bool]], Awaitable[bool]]
"""Runs what takes milliseconds of CPU, off the event loop; hashlib releases the GIL meanwhile."""
MAX_KNOWN: Final = 10_000
"""Users whose right password is known again: 2.3 MB with short names."""


class StoredPasswords:
    """The passwords of the users that have SCRAM credentials."""

    def __init__(self, credentials: ScramCredentials, decoys: Decoys, run: Run, key: bytes) -> None:
        """`key`: random, drawn for this process alone (`KnownPasswords`)."""
        self._credentials = credentials
        self._decoys = decoys
        self._run = run
        self._known = KnownPasswords(key)

    async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
        """The user with this password. One that has credentials of both mechanisms is checked by SCRAM-SHA-256's."""
        found = [await self._credentials.find(mechanism, name) for mechanism in SCRAM_HASHES]
        costs = {mechanism: self._credentials.iterations(mechanism) for mechanism in SCRAM_HASHES}
        known = next((credential for credential in found if credential is not None), None)
        if not any(costs.values()):
            costs = {"SCRAM-SHA-256": Iterations(MIN_ITERATIONS)}
        decoy = self._decoys.credential(next(m for m, cost in costs.items() if cost), name, None)
        digest = self._known.digest(name, password)
        if self._known.is_known(name, digest, known):
            return LoginAttempt(user(name))
        # many connections of one user may wait for the thread: after the first one the others need no hash
        right = await self._run(
            lambda: self._known.is_known(name, digest, known) or _is_right(known or decoy, password, costs)
        )
        if not right or known is None:
            return None
        self._known.add(name, digest, known)
        return LoginAttempt(user(name))


class _Known(NamedTuple):
    digest: bytes
    credential: ScramCredential


class KnownPasswords:
    """The right passwords of users that logged in, as digests by a key that this process alone has.

    One for each user, so that no user drives out others by the many spellings of one password. It counts against the
    very credential that it was checked against: when that is changed or deleted, so is what is known.
    """

    def __init__(self, key: bytes, most: int = MAX_KNOWN) -> None:
        self._key = key
        self._most = most
        self._found: dict[str, _Known] = {}

    def __len__(self) -> int:
        return len(self._found)

    def digest(self, name: str, password: str) -> bytes:
        """Of a password as it was sent by this user; another user's is another."""
        parts = (one.encode(errors="surrogatepass") for one in (name, password))
        return hmac.digest(self._key, b"".join(len(one).to_bytes(4) + one for one in parts), "sha256")

    def is_known(self, name: str, digest: bytes, credential: ScramCredential | None) -> bool:
        """Whether this was right for this credential. Changes nothing, for a thread asks as well."""
        found = self._found.get(name)
        same = hmac.compare_digest(found.digest if found else bytes(len(digest)), digest)
        return same and found is not None and found.credential == credential

    def add(self, name: str, digest: bytes, credential: ScramCredential) -> None:
        """It is right. Of too many users the one whose password was hashed longest ago is forgotten."""
        self._found.pop(name, None)
        self._found[name] = _Known(digest, credential)
        if len(self._found) > self._most:
            del self._found[next(iter(self._found))]


def _is_right(credential: ScramCredential, password: str, costs: dict[str, Iterations | None]) -> bool:
    right = False
    for form in password_forms(password):
        salt, iterations = credential.salt, credential.iterations
        salted = salted_password(credential.mechanism, form, salt, iterations)
        made = credential_of(credential.mechanism, salted, salt, iterations)
        right |= hmac.compare_digest(made.stored_key, credential.stored_key)
        for mechanism, cost in costs.items():
            spent = iterations if mechanism == credential.mechanism else 0
            rest = cost.most - spent if cost else 0
            if rest > 0:
                salted_password(mechanism, form, salt, rest)
    return right
