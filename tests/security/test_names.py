from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp.utils import ScramException, saslprep

from bridge.security.names import MAX_NAME_BYTES, password_forms, prepared, prepared_name


@pytest.mark.parametrize(
    ("text", "result"),
    [  # the examples of RFC 4013, section 3
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("\u0007", None),
        ("\u0627\u0031", None),
        ("", None),
        ("\u00ad", None),
        ("\ud800", None),
    ],
)
def test_names_are_prepared(text: str, result: str | None) -> None:
    assert prepared(text) == result


@given(st.text(max_size=40))
def test_what_is_prepared_stays_as_it_is(text: str) -> None:
    once = prepared(text)
    assert once is None or prepared(once) in (once, None)


def test_a_name_is_bounded_in_bytes() -> None:
    assert prepared_name("a" * MAX_NAME_BYTES) is not None
    assert prepared_name("a" * (MAX_NAME_BYTES + 1)) is None
    assert prepared_name("é" * (MAX_NAME_BYTES // 2 + 1)) is None


def test_a_password_is_tried_as_prepared_and_as_typed_where_these_differ() -> None:
    assert password_forms("secret") == (b"secret",)
    assert password_forms("pä\u00adss") == ("päss".encode(), "pä\u00adss".encode())
    assert password_forms("\u0007") == (b"\x07",)
    assert password_forms("\u00aa" * MAX_NAME_BYTES) == (("\u00aa" * MAX_NAME_BYTES).encode(),)


@given(
    st.text(max_size=8)
    | st.text(st.sampled_from("aA1 \u00a0\u00ad\u0627\u0661\u05d0\u2168\u200f\ufb01\u0221\ue000"), max_size=8)
)
def test_texts_are_prepared_as_by_scramp(text: str) -> None:
    try:
        theirs = saslprep(text) or None
    except ScramException:
        theirs = None
    if not (text.isascii() and text.isprintable()):
        assert prepared(text) == theirs
