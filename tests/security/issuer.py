"""An issuer of tokens: keys of its own, the key set it publishes, tokens right and wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import PyJWS
from jwt.algorithms import get_default_algorithms

from tests.security.users import NOW

_CURVES: Final = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
CLAIMS: Final[dict[str, Any]] = {
    "sub": "alice", "iss": "https://issuer", "aud": "bridge", "iat": NOW - 10, "exp": NOW + 60, "scope": "read write",
}  # fmt: skip


@cache
def private_key(algorithm: str, number: int = 0, bits: int = 2048) -> Any:
    """A key for the algorithm; another one for each number."""
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, bits)


def public_jwk(algorithm: str, number: int = 0, bits: int = 2048, **fields: object) -> dict[str, Any]:
    """How the issuer publishes the key; None as a field leaves it out."""
    key = private_key(algorithm, number, bits).public_key()
    jwk: dict[str, Any] = dict(get_default_algorithms()[algorithm].to_jwk(key, as_dict=True))
    jwk.pop("key_ops", None)
    return {name: value for name, value in {**jwk, **fields}.items() if value is not None}


def key_set(*jwks: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": jwks}).encode()


def token(
    claims: Mapping[str, Any] | bytes, algorithm: str = "RS256", number: int = 0, bits: int = 2048, **header: object
) -> str:
    """A token with these claims, or with any bytes in their place."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return str(PyJWS().encode(payload, private_key(algorithm, number, bits), algorithm, headers=dict(header)))


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
