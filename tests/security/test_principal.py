from __future__ import annotations

import pytest

from bridge.security.principal import ANONYMOUS, Principal, user


def test_a_principal_is_written_as_kafkas_tools_write_it() -> None:
    assert str(user("alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_what_is_written_is_read_again_colons_in_the_name_included() -> None:
    for principal in (user("alice"), user("spiffe://cluster/ns:a"), Principal("Group", "CN=a, O=b")):
        assert Principal.parse(str(principal)) == principal


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice", ":"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        Principal.parse(text)


def test_types_and_names_are_compared_exactly() -> None:
    assert user("alice") != user("Alice")
    assert user("alice") != Principal("user", "alice")
