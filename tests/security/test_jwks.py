from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.security.jwks import ALGORITHMS, parse
from tests.security.issuer import key_set, public_jwk


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_keys_of_each_algorithm_are_found_by_their_id(algorithm: str) -> None:
    keys = parse(key_set(public_jwk(algorithm, 1, kid="one"), public_jwk(algorithm, 2, kid="two")))
    assert [key.key_id for key in keys.find("two", algorithm)] == ["two"]
    assert [key.key_id for key in keys.find(None, algorithm)] == ["one", "two"]
    assert not keys.find("three", algorithm)


def test_a_key_has_the_algorithms_that_fit_it_and_only_its_own_if_it_names_one() -> None:
    free, bound = public_jwk("RS256", 1, kid="free"), public_jwk("RS256", 2, kid="bound", alg="PS512")
    keys = parse(key_set(free, bound, public_jwk("ES256", kid="curve")))
    found = {algorithm: [key.key_id for key in keys.find(None, algorithm)] for algorithm in ALGORITHMS}
    rsa = {name: ["free"] for name in ("RS256", "RS384", "RS512", "PS256", "PS384")}
    assert found == {**rsa, "PS512": ["free", "bound"], "ES256": ["curve"], "ES384": [], "ES512": [], "EdDSA": []}


@pytest.mark.parametrize("algorithm", ["none", "HS256", "", "RS257"])
def test_there_is_no_key_of_another_algorithm(algorithm: str) -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "kid": "secret"}
    assert not parse(key_set(public_jwk("RS256"), secret)).find(None, algorithm)


UNUSABLE: list[dict[str, Any]] = [
    {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
    public_jwk("RS256", use="enc"),
    public_jwk("RS256", key_ops=["encrypt"]),
    public_jwk("RS256", alg="HS256"),
    public_jwk("RS256", 3, 1024),
    public_jwk("RS256", n="not a number"),
    public_jwk("RS256", n=5),
    public_jwk("RS256", e=None),
    public_jwk("ES256", x="AAAA"),
    public_jwk("ES256", crv="P-999"),
    public_jwk("ES256", crv=["P-256"]),
    {"kty": ["RSA"]},
    {},
]


@pytest.mark.parametrize("jwk", UNUSABLE)
def test_a_key_that_cannot_be_used_is_left_out(jwk: dict[str, Any]) -> None:
    keys = parse(key_set(jwk, public_jwk("EdDSA", kid="good")))
    assert [key.key_id for name in ALGORITHMS for key in keys.find(None, name)] == ["good"]
    with pytest.raises(ValueError, match="no key that can be used"):
        parse(key_set(jwk))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [1]}', b'{"keys": []}', b"[" * 100_000, b"\xff",
        key_set(*[{}] * 101), key_set({**public_jwk("RS256"), "d": "AQAB"}),
    ],
)  # fmt: skip
def test_what_is_no_key_set_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it (is|has|holds)"):
        parse(content)


def test_equal_documents_are_equal_sets() -> None:
    assert parse(key_set(public_jwk("RS256"))) == parse(key_set(public_jwk("RS256")))
    assert parse(key_set(public_jwk("RS256"))) != parse(key_set(public_jwk("RS256", 1)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda of: st.lists(of, max_size=3)
)
FIELDS = st.sampled_from(["kty", "alg", "use", "kid", "crv", "n", "e", "x", "y", "key_ops"])


@given(
    st.sampled_from(["RS256", "ES256", "EdDSA"]), st.dictionaries(FIELDS, JSON | st.sampled_from(["RSA", "EC", "OKP"]))
)
def test_keys_with_any_fields_are_a_set_or_a_value_error(algorithm: str, fields: dict[str, Any]) -> None:
    try:
        parse(json.dumps({"keys": [{**public_jwk(algorithm), **fields}]}).encode())
    except ValueError as error:
        assert "no key" in str(error)
