from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.security.principal import user
from bridge.security.sasl.credentials import LoginAttempt, ScramCredential

GOOD = ScramCredential("SCRAM-SHA-256", b"salt-of-a-user", b"s" * 32, b"k" * 32, 4096)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "SCRAM-SHA-1"},
        {"mechanism": "SCRAM-SHA-512"},  # whose keys are longer
        {"salt": b"s" * 11},
        {"stored_key": b"s" * 31},
        {"server_key": b""},
        {"iterations": 4095},
        {"iterations": 16385},
    ],
)
def test_a_credential_that_breaks_a_bound_is_not_made(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"SCRAM|salt|iterations"):
        replace(GOOD, **change)  # type: ignore[arg-type]


def test_what_is_printed_holds_no_secret() -> None:
    printed = repr([GOOD, LoginAttempt(user("alice"), 1.0, "token-of-alice")])
    assert "alice" in printed
    assert not [secret for secret in ("salt-of", "ssss", "kkkk", "token-of") if secret in printed]
