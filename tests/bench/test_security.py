"""The part of the benchmark about security: what is told to clients, and what is made of the figures."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import handshakes, secured, security
from bench.security import Found
from bridge.access.password_file import line_of
from bridge.security.sasl.credentials import credential_of, salted_password
from bridge.standalone.ports import HOST
from tests.support.bridges import BridgeThread
from tests.support.certificates import Authority


def test_a_row_has_medians_of_rates_and_of_the_rounds_ratios() -> None:
    found = {
        (system, protocol): [Found(base / share, share), Found(base / share, share), Found(10.0, 9.0)]
        for system, base in (("bridge", 50.0), ("Kafka", 100.0))
        for protocol, share in (("PLAINTEXT", 1.0), ("SSL", 2.0))
    }
    assert security._row("SSL", found) == ["SSL", 25.0, 50.0, 0.5, 0.5, 0.5, 2.0, 2.0]
    assert len(security._COLUMNS) == 8


@pytest.mark.parametrize("mechanism", ["", "PLAIN", secured.SCRAM])
def test_connections_are_made_and_logged_in(
    bridge_with: Callable[..., BridgeThread], tmp_path: Path, mechanism: str
) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("server")
    salted = salted_password(secured.SCRAM, secured.PASSWORD.encode(), b"a salt of a user", secured.ITERATIONS)
    users = tmp_path / "users"
    kept = credential_of(secured.SCRAM, salted, b"a salt of a user", secured.ITERATIONS)
    users.write_text(line_of(secured.USER, kept) + "\n")
    name = "SASL_SSL" if mechanism else "SSL"
    running = bridge_with(
        kafka={
            "listen": "127.0.0.1:9092", "listeners": f"SSL://{HOST}:0,SASL_SSL://{HOST}:0",
            "sasl_enabled_mechanisms": f"PLAIN,{secured.SCRAM}",
        },
        listener={
            one: {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key} for one in ("SSL", "SASL_SSL")
        },
        security={"password_file": str(users)},
    )  # fmt: skip
    address = (HOST, running.server.listeners.ports[name])
    found = handshakes.load(address, authority.file, mechanism, 0.1)
    assert found["connections"] >= 1  # how many is the machine's doing
    metrics = running.server.metrics
    assert metrics.tls.handshakes["established"].value == found["connections"] + 1
    if mechanism:
        assert metrics.logins() == {(mechanism, "succeeded"): found["connections"] + 1}


def test_entries_allow_one_topic_last() -> None:
    entries = secured._entries("t")
    assert len(entries) == secured.ENTRIES
    assert [one.name for one in entries].count("t") == 2
    assert entries[-1].name == "t"


def test_java_is_told_the_cipher_where_there_is_tls(tmp_path: Path) -> None:
    server = secured.Secured("x", 1, dict.fromkeys(secured.PROTOCOLS, "h:1"), "ca.pem")
    texts = {protocol: server.java(protocol, tmp_path).read_text() for protocol in secured.PROTOCOLS}
    assert [secured.CIPHER in text for text in texts.values()] == [False, True, True]
    assert secured.SCRAM in texts["SASL_SSL"]
    offered = {one["name"] for one in ssl.create_default_context().get_ciphers()}
    assert secured.CIPHER in offered
