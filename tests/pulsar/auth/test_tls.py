import os
import ssl
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bridge.config import PulsarSettings
from bridge.errors import SettingsError
from bridge.pulsar.auth.tls import ClientTls
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.certificates import Authority


def test_new_files_are_taken_and_unfit_ones_are_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.sign("bridge")
    settings = PulsarSettings(tls_ca_file=authority.file, tls_cert_file=mine.certificate, tls_key_file=mine.key)
    metrics = PulsarMetrics()
    tls = ClientTls(settings, metrics)
    first = tls.context()
    assert tls.context() is first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname
    assert first.minimum_version is ssl.TLSVersion.TLSv1_2

    whole = Path(mine.certificate).read_bytes()
    Path(mine.certificate).write_bytes(whole[:100])
    assert [tls.context() is first for _ in range(3)] == [True] * 3
    assert metrics.certificate_reload_errors.value == 1
    Path(mine.certificate).unlink()
    assert tls.context() is first

    before = metrics.certificate_expires_seconds["tls_cert_file"]
    authority.sign("bridge", lasts=timedelta(days=9))
    second = tls.context()
    assert second is not first
    assert metrics.certificate_expires_seconds["tls_cert_file"] - before > timedelta(days=7).total_seconds()
    assert tls.context() is second


def test_files_that_were_never_fit_are_a_mistake_in_the_settings(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(SettingsError, match="tls_ca_file"):
        ClientTls(PulsarSettings(tls_ca_file=str(tmp_path / "ca.pem")), PulsarMetrics()).context()


def test_nothing_is_read_before_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    metrics = PulsarMetrics()
    tls = ClientTls(PulsarSettings(tls_ca_file=str(file)), metrics)
    os.replace(Authority(tmp_path).file, file)
    assert tls.context().cert_store_stats()["x509_ca"] == 1
    assert not metrics.certificate_expires_seconds  # the bridge has none of its own


def test_versions_suites_and_a_password_are_those_of_the_settings(tmp_path: Path) -> None:
    """The key's password is asked of no terminal: without a setting the key is refused."""
    mine = Authority(tmp_path).sign("bridge")
    key = load_pem_private_key(Path(mine.key).read_bytes(), None)
    Path(mine.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    settings = PulsarSettings(tls_cert_file=mine.certificate, tls_key_file=mine.key)
    with pytest.raises(SettingsError, match="the private key is encrypted"):
        ClientTls(settings, PulsarMetrics()).context()
    (tmp_path / "password").write_text("secret")
    suite = "ECDHE-RSA-AES128-GCM-SHA256"
    narrow = replace(
        settings, tls_key_password_file=str(tmp_path / "password"), tls_protocols="TLSv1.2", tls_ciphers=suite
    )
    context = ClientTls(narrow, PulsarMetrics()).context()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    assert [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"] == [suite]
    assert context.verify_mode is ssl.CERT_REQUIRED
