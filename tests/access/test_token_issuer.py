"""What the settings make of an issuer: its keys, and what its tokens must say."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from bridge.access.token_issuer import TokenIssuer
from bridge.config import SecuritySettings, Settings, load_text
from bridge.errors import SettingsError, StartupError
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step
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


# ---- several issuers -------------------------------------------------------------------------------------------------


def several(directory: Path, **more: Any) -> SecuritySettings:
    """https://issuer with the key 0, and https://partner with the key 1."""
    for number, name in enumerate(("own", "partner")):
        (directory / name).write_bytes(key_set(public_jwk("RS256", number, kid="one")))
    text = f"""
    # ours
    https://issuer   jwks={directory}/own      audience=bridge
    https://partner  jwks={directory}/partner  audience=orders,bridge  prefix=partner-
    """
    return SecuritySettings(oauthbearer_issuers=text, **more)


PARTNER = "https://partner"


@pytest.mark.parametrize(
    ("number", "claims", "principal"),
    [
        (0, {}, "User:alice"),
        (1, {"iss": PARTNER}, "User:partner-alice"),
        (1, {"iss": PARTNER, "aud": "orders"}, "User:partner-alice"),
        (0, {"aud": "orders"}, None),
        (0, {"iss": PARTNER}, None),
        (1, {}, None),
        (1, {"iss": "https://stranger"}, None),
        (0, {"iss": "https://stranger"}, None),
        (0, {"iss": None}, None),
        (0, {"iss": ["https://issuer"]}, None),
        (0, {"iss": {"https://issuer": 1}}, None),
    ],
)
async def test_a_token_is_proven_by_the_keys_and_rules_of_its_own_issuer(
    tmp_path: Path, number: int, claims: dict[str, object], principal: str | None
) -> None:
    step = await logged_in(TokenIssuer(several(tmp_path)), number, **claims)
    assert (str(step.principal) if isinstance(step, Done) else None) == principal


@pytest.mark.parametrize(
    "given", ["x", "a.b.c", "a.\u0661.c", "..", "a.W10.c", "a." + "e" * 20000 + ".c", "a.eyJpc3MiOjF9.c"]
)
async def test_what_is_no_token_is_refused(tmp_path: Path, given: str) -> None:
    exchange = TokenIssuer(several(tmp_path)).mechanism.begin()
    step = await exchange.step(f"n,,\x01auth=Bearer {given}\x01\x01".encode(), NOW)
    assert isinstance(step, Challenge | Failed)


async def test_the_files_of_all_issuers_are_followed(tmp_path: Path) -> None:
    issuer = TokenIssuer(several(tmp_path))
    (tmp_path / "new").write_bytes(key_set(public_jwk("RS256", 2, kid="one")))
    (tmp_path / "new").rename(tmp_path / "partner")
    issuer.refresh()
    assert isinstance(await logged_in(issuer, 2, iss=PARTNER), Done)
    assert isinstance(await logged_in(issuer, 1, iss=PARTNER), Challenge)
    assert isinstance(await logged_in(issuer, 0), Done)


def test_several_issuers_are_checked_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    TokenIssuer(several(tmp_path)).start()
    assert not caplog.records


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("https://a", "has no jwks="),
        ("https://a jwks=https://a/keys", "has no audience="),
        ("https://a jwks=/no/such audience=b", "is neither an https: URL nor a file"),
        ("https://a jwks=http://a/keys audience=b", "its jwks is neither"),
        ("https://a jwks=https://a/keys audience=b ca=/no/such", "is neither an https: URL nor a file"),
        ("https://a jwks=https://a/keys audience=b key=c", "is not `ISSUER"),
        ("https://a jwks=https://a/keys audience=b audience=c", "is not `ISSUER"),
        ("https://a jwks=https://a/keys audience=", "is not `ISSUER"),
        ("jwks=https://a/keys audience=b", "is not `ISSUER"),
        (
            "https://a jwks=https://a/keys audience=b\nhttps://a jwks=https://b/keys audience=b",
            "https://a is there twice",
        ),
    ],
)
def test_a_line_that_names_no_issuer_is_refused(line: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        SecuritySettings(oauthbearer_issuers=line)


@pytest.mark.parametrize(
    "line", ["a jwks=http://s3cret@a audience=b", "a jwks=https://a?s3cret audience=", "jwks=s3cret"]
)
def test_what_is_said_of_a_line_has_no_secret(line: str) -> None:
    with pytest.raises(SettingsError) as raised:
        SecuritySettings(oauthbearer_issuers=line)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["expected_issuer", "expected_audience", "jwks_endpoint_url"])
def test_several_issuers_and_one_are_one_too_many(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"oauthbearer_issuers and security.oauthbearer_{name} are both set"):
        several(tmp_path, **{f"oauthbearer_{name}": "https://issuer/keys"})


def test_issuers_survive_the_way_to_a_worker(tmp_path: Path) -> None:
    settings = several(tmp_path)
    made = Settings().with_values(security={"oauthbearer_issuers": settings.oauthbearer_issuers})
    assert load_text(made.to_toml()).security.token_issuers == settings.token_issuers
