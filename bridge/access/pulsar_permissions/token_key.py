"""The public key of Pulsar's tokens, for a bridge whose Pulsar does not say whose a token is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from jwt import PyJWS, PyJWTError

from bridge.errors import StartupError

_JWS: Final = PyJWS()
_ALGORITHMS: Final[dict[type, Sequence[str]]] = {
    RSAPublicKey: ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    EllipticCurvePublicKey: ("ES256", "ES384", "ES512"),
}
"""By kind of key, whatever a token says of itself: never `none`, and nothing whose key is a secret."""


class TokenKey:
    """A file as `pulsar tokens create-key-pair` writes it (DER), or the same as PEM."""

    def __init__(self, file: str) -> None:
        """StartupError where it has no such key."""
        try:
            content = Path(file).read_bytes()
            load = load_pem_public_key if content.startswith(b"-----BEGIN") else load_der_public_key
            self._key = load(content)
        except (OSError, ValueError, TypeError) as error:
            raise StartupError(f"pulsar.token_public_key_file: {error}") from None
        self._algorithms = [
            name for kind, names in _ALGORITHMS.items() if isinstance(self._key, kind) for name in names
        ]
        if not self._algorithms:
            raise StartupError("pulsar.token_public_key_file: the key is neither of RSA nor of an elliptic curve")

    def has_signed(self, token: str) -> bool:
        """Whether this key's owner has made the token."""
        try:
            _JWS.decode_complete(token, self._key, algorithms=self._algorithms)  # type: ignore[arg-type]
        except (PyJWTError, ValueError, TypeError):
            return False
        return True
