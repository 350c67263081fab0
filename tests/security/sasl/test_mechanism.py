from __future__ import annotations

from bridge.security.principal import user
from bridge.security.sasl.mechanism import Challenge, Done


def test_what_a_step_prints_holds_no_secret() -> None:
    printed = repr([Challenge(b"salt-of-alice"), Done(user("alice"), 1.0, b"signature", "token-of-alice")])
    assert "alice" in printed
    assert not [secret for secret in ("salt-of", "signature", "token-of") if secret in printed]
