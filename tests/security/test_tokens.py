"""Tokens: valid ones of each algorithm, and the ways of forging one."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt import PyJWK

from bridge.security import jwks
from bridge.security.jwks import ALGORITHMS
from bridge.security.tokens import MAX_TOKEN_CHARS, InvalidToken, TokenClaims, TokenRules, TokenVerifier
from tests.security.issuer import CLAIMS, key_set, part, private_key, public_jwk, token
from tests.security.users import NOW
from tests.support.effort import examples

RULES = TokenRules(expected_issuer="https://issuer", expected_audience=frozenset({"bridge"}))
ALICE = TokenClaims("alice", NOW + 60)


class Kept:
    """A key set in memory."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self._keys = jwks.parse(key_set(*keys))

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        return self._keys.find(key_id, algorithm)


KEYS = Kept(public_jwk("RS256", kid="rsa"), public_jwk("RS256", 1, kid="rsa-1"), public_jwk("ES256", kid="ec"))


async def verify(text: str, rules: TokenRules = RULES, now: float = NOW) -> TokenClaims:
    return await TokenVerifier(KEYS, rules).verify(text, now)


async def refused(text: str, rules: TokenRules = RULES, now: float = NOW) -> str:
    with pytest.raises(InvalidToken) as raised:
        await verify(text, rules, now)
    return str(raised.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kid", ["two", None])
async def test_a_token_of_each_algorithm_is_taken_with_and_without_a_key_id(algorithm: str, kid: str | None) -> None:
    keys = Kept(public_jwk(algorithm, 1, kid="one"), public_jwk(algorithm, 2, kid="two"))
    text = token(CLAIMS, algorithm, 2, kid=kid) if kid else token(CLAIMS, algorithm, 2)
    assert await TokenVerifier(keys, RULES).verify(text, NOW) == ALICE


async def test_a_token_of_another_key_is_refused_whatever_key_id_it_names() -> None:
    assert "signature" in await refused(token(CLAIMS, number=5, kid="rsa"))
    assert "signature" in await refused(token(CLAIMS, number=5))
    assert "signature" in await refused(token(CLAIMS, number=1, kid="rsa"))
    assert "no key" in await refused(token(CLAIMS, kid="unknown"))
    assert "no key" in await refused(token(CLAIMS, kid="ec"))


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
@pytest.mark.parametrize("signature", ["", "AAAA"])
async def test_an_unsigned_token_is_refused(name: str, signature: str) -> None:
    head, claims = part(json.dumps({"alg": name, "kid": "rsa"}).encode()), part(json.dumps(CLAIMS).encode())
    assert await refused(f"{head}.{claims}.{signature}")


@pytest.mark.parametrize("form", ["pem", "pkcs1", "der", "jwk"])
async def test_a_public_key_is_no_secret_to_sign_with(form: str) -> None:
    """Key confusion: HS256 with what all may know of an RSA key."""
    public = private_key("RS256").public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "pkcs1": public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(public_jwk("RS256", kid="rsa")).encode(),
    }[form]
    signed = part(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()) + "." + part(json.dumps(CLAIMS).encode())
    text = f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"
    assert "algorithm" in await refused(text)


async def test_keys_that_a_token_brings_along_are_not_used() -> None:
    mine = public_jwk("RS256", 5, kid="rsa")
    for header in ({"jwk": mine}, {"jku": "https://attacker/keys"}, {"x5u": "https://attacker"}, {"x5c": ["AAAA"]}):
        assert "signature" in await refused(token(CLAIMS, number=5, kid="rsa", **header))


async def test_only_algorithms_of_the_list_are_taken() -> None:
    rules = TokenRules(algorithms=("ES256",))
    assert await verify(token(CLAIMS, "ES256"), rules) == ALICE
    assert "algorithm" in await refused(token(CLAIMS, "RS256"), rules)


@pytest.mark.parametrize("algorithms", [(), ("none",), ("HS256",), ("RS256", "HS512"), ("rs256",)])
def test_a_list_with_other_algorithms_is_refused(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="RS256"):
        TokenRules(algorithms=algorithms)


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"crit": ["b64"], "b64": True}])
async def test_critical_extensions_are_refused(header: dict[str, Any]) -> None:
    head = {"alg": "RS256", "kid": "rsa", **header}
    signed = part(json.dumps(head).encode()) + "." + part(json.dumps(CLAIMS).encode())
    assert await refused(f"{signed}.AAAA")


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": [NOW]}, "exp"),
        ({"exp": math.inf}, "exp"),
        ({"exp": math.nan}, "exp"),
        ({"exp": 10**400}, "exp"),
        ({"exp": NOW - 30}, "expired"),
        ({"exp": -math.inf}, "exp"),
        ({"nbf": NOW + 31}, "nbf"),
        ({"iat": NOW + 31}, "iat"),
        ({"nbf": "later"}, "nbf"),
        ({"nbf": math.nan}, "nbf"),
        ({"iss": None}, "issuer"),
        ({"iss": "https://issuer/"}, "issuer"),
        ({"iss": ["https://issuer"]}, "issuer"),
        ({"aud": None}, "audience"),
        ({"aud": "bridge2"}, "audience"),
        ({"aud": "bridge other"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": {"bridge": 1}}, "audience"),
        ({"aud": [["bridge"]]}, "audience"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": " \n"}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": ["alice"]}, "sub"),
        ({"sub": "a" * 513}, "sub"),
        ({"sub": "\ud800"}, "sub"),
    ],
)
async def test_a_wrong_claim_is_refused_and_named(claims: dict[str, Any], word: str) -> None:
    assert word in await refused(token({**CLAIMS, **claims}))


@pytest.mark.parametrize("absent", ["iat", "scope", "nbf"])
async def test_claims_that_are_not_needed_may_be_absent(absent: str) -> None:
    assert await verify(token({name: value for name, value in CLAIMS.items() if name != absent})) == ALICE


async def test_clocks_may_differ_by_the_skew_and_a_log_in_always_ends_in_the_future() -> None:
    text = token({**CLAIMS, "nbf": NOW, "iat": NOW})
    assert await verify(text, now=NOW - 30) == ALICE
    assert await verify(text, now=NOW + 59.9) == ALICE
    assert await verify(text, now=NOW + 60) == TokenClaims("alice", NOW + 90)
    assert await verify(text, now=NOW + 89.9) == TokenClaims("alice", NOW + 90)
    assert "expired" in await refused(text, now=NOW + 90)
    assert "nbf" in await refused(text, now=NOW - 30.1)
    strict = TokenRules(clock_skew_seconds=0)
    assert "expired" in await refused(text, strict, now=NOW + 60)


async def test_a_clock_that_jumps_by_two_days_takes_no_token_before_its_time_and_none_after_it() -> None:
    two_days = 2 * 24 * 3600
    current, later = token({**CLAIMS, "nbf": NOW}), token({**CLAIMS, "nbf": NOW + 31})
    for _ in range(2):
        assert await verify(current) == ALICE
        assert "not valid yet" in await refused(later)
        for text in (current, later):
            assert "not valid yet" in await refused(text, now=NOW - two_days)
            assert "expired" in await refused(text, now=NOW + two_days)


async def test_issuer_and_audience_are_checked_where_they_are_told() -> None:
    bare = {"sub": "alice", "exp": NOW + 60}
    assert await verify(token(bare), TokenRules()) == ALICE
    assert await verify(token({**CLAIMS, "aud": ["other", "bridge"]})) == ALICE
    assert await refused(token(bare))


async def test_the_name_and_the_scope_may_be_other_claims() -> None:
    rules = TokenRules(sub_claim_name="client", scope_claim_name="scp", required_scope=frozenset({"read", "write"}))
    claims = {**CLAIMS, "client": "bob", "scp": ["write", "read", 5]}
    assert await verify(token(claims), rules) == TokenClaims("bob", NOW + 60)
    assert await verify(token({**claims, "scp": "read write all"}), rules) == TokenClaims("bob", NOW + 60)
    for scope in ("read", "readwrite", [], None, {"read": 1, "write": 1}, ["read write"]):
        assert "scope" in await refused(token({**claims, "scp": scope}), rules)
    assert "client" in await refused(token(CLAIMS), rules)


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"7", b"null", b'"a"', b"\xff", b"[" * 9000, b'{"sub":'])
async def test_signed_bytes_that_are_no_claims_are_refused(payload: bytes) -> None:
    assert "JSON object" in await refused(token(payload))


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "...", "a.b.c", "a.b", "=.=.=", "é.é.é", part(b"[]") + "..", part(b"{") + "..", "\ud800.a.b"],
)
async def test_what_is_no_token_is_refused(text: str) -> None:
    assert await refused(text)


async def test_a_header_that_is_nested_deeply_is_refused() -> None:
    assert await refused(part(b'{"alg":' + b"[" * 9000) + ".AAAA.AAAA")


async def test_a_long_token_is_refused() -> None:
    assert "too long" in await refused("a" * (MAX_TOKEN_CHARS + 1))


async def test_no_reason_shows_a_part_of_the_token() -> None:
    text = token({**CLAIMS, "aud": "not-for-you"})
    for broken in (text, text[:-4], text[4:], text.replace(".", "!"), text + ".x"):
        reason = await refused(broken)
        assert not [piece for piece in broken.split(".") if len(piece) > 3 and piece[:8] in reason]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=4), of, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(list(CLAIMS)) | st.just("nbf"), JSON))
@settings(max_examples=examples(150), deadline=None)
async def test_signed_claims_of_any_type_are_taken_or_refused(claims: dict[str, Any]) -> None:
    text = token({**CLAIMS, **claims})
    try:
        taken = await verify(text)
    except InvalidToken:
        return
    assert taken.expires_at > NOW
    assert taken.name


@given(st.text(max_size=60) | st.lists(st.binary(max_size=20).map(part), max_size=5).map(".".join))
@settings(max_examples=examples(300))
async def test_any_text_is_refused(text: str) -> None:
    assert await refused(text)


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk"]), JSON | st.just("RS256")))
@settings(max_examples=examples(300))
async def test_any_header_over_a_wrong_signature_is_refused(header: dict[str, Any]) -> None:
    claims = part(json.dumps(CLAIMS).encode())
    assert await refused(f"{part(json.dumps(header).encode())}.{claims}.{'A' * 342}")
