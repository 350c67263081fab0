"""The settings in force are shown, and no secret among them."""

from __future__ import annotations

import json
import re
from dataclasses import fields

from bridge.config import ListenerSettings, Settings
from bridge.config.sections import SECTIONS
from bridge.http.status.settings import HIDDEN, rows

SECRETS = re.compile(r"token|password|secret|credential|key")
NO_SECRETS = {
    # of files their places are shown, and never what is in them
    "http.token_file", "pulsar.token_file", "pulsar.proxy_token_file", "pulsar.oauth2_key_file", "pulsar.tls_key_file",
    "security.password_file", "cluster.internal_secret_file", "http.ssl_key_file", "listener.ssl_key_file",
    "pulsar.tls_keystore_file", "pulsar.tls_key_password_file", "http.ssl_keystore_file", "http.ssl_key_password_file",
    "listener.ssl_keystore_file", "listener.ssl_key_password_file", "pulsar.oauth2_token_url",
    "pulsar.token_public_key_file", "pulsar.token_auth_claim",
}  # fmt: skip


def test_secrets_are_hidden_in_every_form() -> None:
    settings = Settings().with_values(
        http={"token": "s3cret-of-http"},
        pulsar={"token": "s3cret-of-pulsar", "admin_url": "http://admin:s3cret-of-admin@127.0.0.1:8080"},
        security={"oauthbearer_jwks_endpoint_url": "https://issuer.example/keys?code=s3cret-of-keys#s3cret"},
        kafka={"sasl_enabled_mechanisms": "PLAIN"},
    )
    shown = rows(settings)
    assert "s3cret" not in json.dumps(shown)
    found = {row["name"]: row for row in shown}
    assert found["http.token"]["value"] == found["pulsar.token"]["value"] == HIDDEN
    assert found["http.token"]["changed"] is True
    assert found["pulsar.admin_url"]["value"] == "http://(not shown)@127.0.0.1:8080"
    assert found["security.oauthbearer_jwks_endpoint_url"]["value"] == "https://issuer.example/keys?(not shown)"
    assert found["kafka.listen"] == {
        "name": "kafka.listen", "value": "127.0.0.1:9092", "usual": "127.0.0.1:9092", "changed": False, "position": 0,
    }  # fmt: skip


def test_every_setting_is_there_also_those_of_listeners() -> None:
    settings = Settings().with_values(
        kafka={"listeners": "LAN://127.0.0.1:0", "listener_security_protocol_map": "LAN:PLAINTEXT"},
        listener={"LAN": {"max_connections": 7}},
    )
    found = {row["name"]: row["value"] for row in rows(settings)}
    wanted = {f"{section}.{setting.name}" for section, kind in SECTIONS.items() for setting in fields(kind)}
    wanted |= {f"listener.LAN.{setting.name}" for setting in fields(ListenerSettings)}
    assert set(found) == wanted
    assert found["listener.LAN.max_connections"] == "7"
    assert found["http.token"] == ""


def test_each_setting_whose_name_speaks_of_a_secret_is_one_or_is_known_to_be_none() -> None:
    kinds = {**SECTIONS, "listener": ListenerSettings}
    open_ones = {
        f"{section}.{setting.name}"
        for section, kind in kinds.items()
        for setting in fields(kind)
        if SECRETS.search(setting.name) and not setting.metadata.get("secret")
    }
    assert open_ones == NO_SECRETS, "mark it secret, or add it here"


def test_secrets_in_the_lines_of_issuers_are_hidden() -> None:
    one = "https://a jwks=https://me:s3cret@a/keys?code=s3cret audience=b"
    lines = f"{one}\nhttps://b jwks=https://b/keys#s3cret audience=b"
    shown = rows(Settings().with_values(security={"oauthbearer_issuers": lines}))
    (value,) = (str(row["value"]) for row in shown if row["name"] == "security.oauthbearer_issuers")
    assert "s3cret" not in value
    assert value.count("audience=b") == 2
