"""JSON web key sets (RFC 7517): which public keys may have signed a token."""

import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from jwt import PyJWK, PyJWTError

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}
ALGORITHMS: Final = (*_RSA, *(name for names in _BY_CURVE.values() for name in names))
"""With a public key. There is no `none`, and none of those whose key is a secret shared with the issuer: where both
kinds are taken, a public key can be passed off as such a secret (RFC 8725, 2.1)."""
_MAX_KEYS: Final = 100
_MAX_TRIED: Final = 8
"""Keys that a token without a key id is tried with: each takes 50 µs and more."""


class KeySet(Protocol):
    """Finds the keys of a token's issuer."""

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys that may have signed a token with this header; none if there is no such key.

        CredentialsUnavailable if that cannot be known now.
        """


class Keys:
    """A key set as it was read. Each key is bound to the algorithms that fit it, whatever a token says."""

    def __init__(self, keys: Sequence[dict[str, Any]]) -> None:
        """ValueError if none of the keys can be used."""
        self._document = keys
        self._keys = {algorithm: _usable(keys, algorithm) for algorithm in ALGORITHMS}
        if not any(self._keys.values()):
            raise ValueError("it has no key that can be used")

    def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys with this id; all of the algorithm for a token without one."""
        keys = self._keys.get(algorithm, ())
        return [key for key in keys if key_id is None or key.key_id == key_id][:_MAX_TRIED]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and other._document == self._document

    __hash__ = None  # type: ignore[assignment]


def parse(content: bytes) -> Keys:
    """The keys of a document; ValueError with the reason."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ValueError("it is not a JSON web key set: an object with an array `keys` of objects")
    if len(keys) > _MAX_KEYS:
        raise ValueError(f"it has more than {_MAX_KEYS} keys")
    if any("d" in key for key in keys):
        raise ValueError("it holds a private key: only the issuer may have that")
    return Keys(keys)


def _usable(keys: Sequence[dict[str, Any]], algorithm: str) -> list[PyJWK]:
    made = (_made(key, algorithm) for key in keys if _fits(key, algorithm))
    return [key for key in made if key is not None]


def _fits(key: dict[str, Any], algorithm: str) -> bool:
    operations = key.get("key_ops")
    if key.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return False
    if key.get("alg", algorithm) != algorithm:
        return False
    kind, curve = key.get("kty"), key.get("crv")
    if kind == "RSA":
        return algorithm in _RSA
    return kind in ("EC", "OKP") and isinstance(curve, str) and algorithm in _BY_CURVE.get(curve, ())


def _made(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    """The key; None if it is broken, or too short to be safe (RFC 7518, 3.3)."""
    try:
        made = PyJWK(key, algorithm)
        return None if made.Algorithm.check_key_length(made.key) else made
    except (PyJWTError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return None
