"""Signed JSON web tokens (RFC 7519): whether one is valid, and for whom and until when.

PyJWT checks the signature. The claims are checked here: PyJWT would ask the clock itself.
"""

import json
import math
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jwt import InvalidSignatureError, PyJWK, PyJWS, PyJWTError
from jwt.types import SigOptions

from bridge.errors import BridgeError
from bridge.security.jwks import ALGORITHMS, KeySet
from bridge.security.names import MAX_NAME_BYTES

MAX_TOKEN_CHARS: Final = 16384
"""As long as HTTP servers let a header be: tokens pass these, too."""
_JWS: Final = PyJWS()
_OPTIONS: Final[SigOptions] = {"verify_signature": True, "enforce_minimum_key_length": True}


class InvalidToken(BridgeError):
    """The token is not taken. The reason is for the audit log; nothing of the token is in it but a name."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What tokens must be: Kafka's settings `sasl.oauthbearer.…` of the same names.

    Without an issuer or an audience that is not checked: then a token that the same keys signed for any other service
    is taken. A listener warns of that.
    """

    expected_issuer: str | None = None
    expected_audience: frozenset[str] = frozenset()
    """One of these is enough."""
    clock_skew_seconds: float = 30.0
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    required_scope: frozenset[str] = frozenset()
    """All of these are needed; Kafka's JWT validator has no such setting."""
    name_prefix: str = ""
    """Goes before the names that these tokens have."""
    algorithms: tuple[str, ...] = ALGORITHMS

    def __post_init__(self) -> None:
        other = sorted(set(self.algorithms) - set(ALGORITHMS))
        if other or not self.algorithms:
            raise ValueError(
                f"algorithms are some of {', '.join(ALGORITHMS)}, not {', '.join(other) or 'none of them'}"
            )


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a valid token says of its owner."""

    name: str
    expires_at: float


class Tokens(Protocol):
    """Tells which tokens are valid."""

    async def verify(self, token: str, now: float) -> TokenClaims:
        """What a valid token says; InvalidToken otherwise. CredentialsUnavailable if the keys are not to be had."""


class IssuedTokens:
    """Verifies the tokens of several issuers, each by its own keys and rules."""

    def __init__(self, issuers: "Mapping[str, TokenVerifier]") -> None:
        """By what tokens have as `iss`; the rules of each expect it."""
        self._issuers = issuers

    async def verify(self, token: str, now: float) -> TokenClaims:
        """As `Tokens`. Whose a token says it is only picks the keys by which that is proven."""
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidToken("the token is too long")
        issuer = _unproven(token).get("iss")
        verifier = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if verifier is None:
            raise InvalidToken("the token is of another issuer")
        return await verifier.verify(token, now)


class TokenVerifier:
    """Verifies tokens by the keys of one issuer."""

    def __init__(self, keys: KeySet, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules

    async def verify(self, token: str, now: float) -> TokenClaims:
        """What a valid token says; InvalidToken otherwise. CredentialsUnavailable if the keys are not to be had."""
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidToken("the token is too long")
        algorithm, key_id = self._header(token)
        keys = await self._keys.find(key_id, algorithm)
        if not keys:
            raise InvalidToken("no key of the issuer has the token's key id and algorithm")
        for key in keys:
            payload = _signed_payload(token, key, algorithm)
            if payload is not None:
                return self._claims(_object(payload), now)
        raise InvalidToken("the token's signature is wrong")

    def _header(self, token: str) -> tuple[str, str | None]:
        """Algorithm and key id. Keys that a token brings along or points to (jwk, jku, x5c, x5u) are not looked at."""
        try:
            header: Mapping[str, Any] = _JWS.get_unverified_header(token)
        except (PyJWTError, ValueError):  # whose texts may show a part of the token
            raise InvalidToken("the token is not a signed JSON web token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            raise InvalidToken("the token's algorithm is not allowed")
        if "crit" in header or "b64" in header:
            raise InvalidToken("the token has critical extensions")
        return algorithm, key_id

    def _claims(self, claims: Mapping[str, Any], now: float) -> TokenClaims:
        rules = self._rules
        name = claims.get(rules.sub_claim_name)
        if not isinstance(name, str) or not name.strip() or not _is_short_text(name):
            raise InvalidToken(f"the token has no valid claim {rules.sub_claim_name}")
        if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
            raise InvalidToken("the token is of another issuer", name)
        if rules.expected_audience and not rules.expected_audience & _words(claims.get("aud"), split=False):
            raise InvalidToken("the token is for another audience", name)
        if not rules.required_scope <= _words(claims.get(rules.scope_claim_name), split=True):
            raise InvalidToken("the token has not the scope that is needed", name)
        return TokenClaims(rules.name_prefix + name, self._expiry(claims, now, name))

    def _expiry(self, claims: Mapping[str, Any], now: float, name: str) -> float:
        skew = self._rules.clock_skew_seconds
        for claim in ("nbf", "iat"):
            if claims.get(claim) is not None and not _number(claims, claim, name) <= now + skew:
                raise InvalidToken(f"the token is not valid yet by {claim}", name)
        expiry = _number(claims, "exp", name)
        if expiry + skew <= now:
            raise InvalidToken("the token has expired", name)
        return expiry if expiry > now else expiry + skew


def _signed_payload(token: str, key: PyJWK, algorithm: str) -> bytes | None:
    """The payload; None if another key has signed it."""
    try:
        decoded: Mapping[str, Any] = _JWS.decode_complete(token, key, algorithms=[algorithm], options=_OPTIONS)
    except InvalidSignatureError:
        return None
    except (PyJWTError, ValueError):
        raise InvalidToken("the token is not a signed JSON web token") from None
    payload: bytes = decoded["payload"]
    return payload


def _unproven(token: str) -> Mapping[str, Any]:
    """What a token claims."""
    middle = token.split(".")[1:2]
    try:
        payload = urlsafe_b64decode(middle[0] + "=" * (-len(middle[0]) % 4)) if middle else b""
    except ValueError:
        raise InvalidToken("the token is not a signed JSON web token") from None
    return _object(payload)


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise InvalidToken("the token's claims are not a JSON object")
    return claims


def _number(claims: Mapping[str, Any], claim: str, name: str) -> float:
    value = claims.get(claim)
    if value is None:
        raise InvalidToken(f"the token has no {claim}", name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InvalidToken(f"the token's {claim} is no time", name)


def _words(value: object, *, split: bool) -> frozenset[str]:
    """A claim that is one text or several; anything else is none."""
    if isinstance(value, str):
        return frozenset(value.split() if split else (value,))
    return frozenset(word for word in value if isinstance(word, str)) if isinstance(value, list) else frozenset()


def _is_short_text(name: str) -> bool:
    """JSON may hold half a surrogate pair, which no Kafka message can."""
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False
