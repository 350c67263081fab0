"""What the settings make of an issuer: its keys, and what its tokens must say."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bridge.config import SecuritySettings
from bridge.errors import SettingsError, StartupError
from bridge.security.sasl import Challenge, Done, Step
from bridge.security.token_issuer import TokenIssuer
from tests.security.issuer import CLAIMS, key_set, public_jwk, token
from tests.security.users import NOW


def written(path: Path, *, number: Any = 0, **settings: Any) -> SecuritySettings:
    path.with_suffix(".new").write_bytes(key_set(public_jwk("RS256", number, kid="one")))
    path.with_suffix(".new").rename(path)
    return SecuritySettings(oauthbearer_jwks_file=str(path), **settings)


async def logged_in(issuer: TokenIssuer, number: int = 0, **claims: object) -> Step:
    given = token({**CLAIMS, **claims}, "RS256", number, kid="one")
    return await issuer.mechanism.begin().step(f"n,,\x01auth=Bearer {given}\x01\x01".encode(), NOW)


async def test_a_token_of_the_issuer_lets_in(tmp_path: Path) -> None:
    step = await logged_in(TokenIssuer(written(tmp_path / "keys")))
    assert isinstance(step, Done)
    assert (str(step.principal), step.expires_at) == ("User:alice", CLAIMS["exp"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("oauthbearer_expected_issuer", "https://other"),
        ("oauthbearer_expected_audience", "one, other"),
        ("oauthbearer_required_scope", "read administer"),
        ("oauthbearer_sub_claim_name", "email"),
    ],
)
async def test_what_the_settings_demand_is_looked_at(tmp_path: Path, setting: str, value: str) -> None:
    issuer = TokenIssuer(written(tmp_path / "keys", **{setting: value}))
    assert isinstance(await logged_in(issuer), Challenge)


async def test_one_of_several_audiences_is_enough(tmp_path: Path) -> None:
    issuer = TokenIssuer(written(tmp_path / "keys", oauthbearer_expected_audience="other, bridge"))
    assert isinstance(await logged_in(issuer), Done)


async def test_a_changed_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    issuer = TokenIssuer(written(path))
    written(path, number=1)
    assert isinstance(await logged_in(issuer, 1), Challenge)
    issuer.refresh()
    assert isinstance(await logged_in(issuer, 1), Done)
    assert isinstance(await logged_in(issuer, 0), Challenge)


@pytest.mark.parametrize("checked", [True, False])
def test_what_is_not_checked_is_said(tmp_path: Path, checked: bool, caplog: pytest.LogCaptureFixture) -> None:
    demanded: dict[str, Any] = {"oauthbearer_expected_issuer": "https://issuer"}
    if checked:
        demanded["oauthbearer_expected_audience"] = "bridge"
    with caplog.at_level(logging.WARNING):
        TokenIssuer(written(tmp_path / "keys", **demanded)).start()
    assert bool(caplog.records) is not checked


def test_a_file_that_is_no_key_set_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("{}")
    with pytest.raises(StartupError, match="JSON web key set"):
        TokenIssuer(SecuritySettings(oauthbearer_jwks_file=str(tmp_path / "keys")))


def test_a_file_and_a_url_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not both"):
        written(tmp_path / "keys", oauthbearer_jwks_endpoint_url="https://issuer/keys")


@pytest.mark.parametrize("url", ["http://issuer/keys", "https://", "file:///etc/passwd", "https:///keys"])
def test_keys_come_by_https_alone(url: str) -> None:
    with pytest.raises(SettingsError, match="https://"):
        SecuritySettings(oauthbearer_jwks_endpoint_url=url)
