"""Credentials of users that do not exist, so that logging in as one takes the same course and the same work."""

import hmac
from typing import Final

from bridge.security.credentials import KEY_BYTES, MIN_ITERATIONS, SCRAM_HASHES, Iterations, ScramCredential, salt_text

MIN_SECRET_BYTES: Final = 16


class Decoys:
    """Makes one credential for each name, the same each time: a salt that changed would tell that it is none.

    All nodes of a cluster need the same `secret`, also after a restart, or two salts of one name tell. It is random.
    One derived from credentials would be worse than none: a client could try passwords against the salts that it is
    shown, without asking again.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"a secret of at least {MIN_SECRET_BYTES} bytes is needed")
        self._secret = secret

    def credential(self, mechanism: str, name: str, iterations: Iterations | None) -> ScramCredential:
        """The decoy of a name. No password leads to its StoredKey, which is no hash of a key."""
        length = KEY_BYTES[mechanism]
        return ScramCredential(
            mechanism,
            salt_text(int.from_bytes(self._digest(mechanism, "salt", name))),
            self._digest(mechanism, "stored key", name)[:length],
            self._digest(mechanism, "server key", name)[:length],
            iterations.usual if iterations else MIN_ITERATIONS,
        )

    def _digest(self, mechanism: str, part: str, name: str) -> bytes:
        text = "\0".join((mechanism, part, name)).encode(errors="surrogatepass")
        return hmac.digest(self._secret, text, SCRAM_HASHES[mechanism])
