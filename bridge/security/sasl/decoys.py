"""Credentials of users that do not exist, so that logging in as one takes the same course and the same work.

Users are told from their decoys by nothing that SCRAM shows. Each tool makes salts of its own length and letters, and
each user may have iterations of its own. So a decoy has the shape of some user's credential: which one, its name
decides, each shape as often as users have it. When users change, the shapes of few names do (weighted rendezvous
hashing), and then with another salt, as if the user had another password.
"""

import hashlib
import hmac
from math import log
from typing import Final

from bridge.security.sasl.credentials import (
    KEY_BYTES,
    MIN_ITERATIONS,
    SCRAM_HASHES,
    Iterations,
    ScramCredential,
    Shape,
)

MIN_SECRET_BYTES: Final = 16
_USUAL: Final = Shape("", 0, MIN_ITERATIONS)
"""Where there are no users: that of Kafka's tools."""


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
        shape = self._shape(name, iterations)
        seed = self._digest(mechanism, f"salt {shape}", name)
        return ScramCredential(
            mechanism,
            shape.salt(hashlib.shake_256(seed).digest(shape.salt_bytes + 17)),
            self._digest(mechanism, "stored key", name)[:length],
            self._digest(mechanism, "server key", name)[:length],
            shape.iterations,
        )

    def _shape(self, name: str, iterations: Iterations | None) -> Shape:
        """The same for both mechanisms where both have it: the tool that adds a user does so for both."""
        shapes = iterations.shapes if iterations else {}

        def score(shape: Shape) -> float:
            drawn = int.from_bytes(self._digest("SCRAM-SHA-256", f"shape {shape}", name)[:6])
            return log((drawn + 1) / (1 << 48)) / shapes[shape]

        return max(shapes, key=score, default=_USUAL)

    def _digest(self, mechanism: str, part: str, name: str) -> bytes:
        text = "\0".join((mechanism, part, name)).encode(errors="surrogatepass")
        return hmac.digest(self._secret, text, SCRAM_HASHES[mechanism])
