"""Versions and cipher suites: what the settings take, and OpenSSL as the judge of suites' names."""

import ssl
import subprocess

import pytest

from bridge.config import HttpSettings, ListenerSettings, PulsarSettings
from bridge.config.tls import TlsLimits, openssl_name
from bridge.errors import SettingsError


@pytest.mark.programs
def test_suites_have_the_names_that_openssl_tells() -> None:
    told = subprocess.run(
        ["openssl", "ciphers", "-tls1_2", "-s", "-stdname", "ECDHE:DHE:RSA:!PSK:!SRP:!CAMELLIA:!ARIA"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    pairs = [(line.split()[0], line.split()[2]) for line in told.splitlines() if "_WITH_" in line]
    assert len(pairs) > 15
    for java, own in pairs:
        assert openssl_name(java) == own
        assert openssl_name(own) == own


@pytest.mark.parametrize(
    "suites",
    [
        "TLS_AES_256_GCM_SHA384", "NO-SUCH-SUITE", "ALL", "HIGH:!aNULL", "DEFAULT@SECLEVEL=0", "ADH-AES256-GCM-SHA384",
        "NULL-SHA256", "ECDHE-RSA-AES128-GCM-SHA256, NO-SUCH-SUITE", "ECDHE-RSA-AES128-GCM-SHA256:ALL",
    ],
)  # fmt: skip
def test_what_is_no_suite_of_tls_1_2_is_refused(suites: str) -> None:
    with pytest.raises(SettingsError, match=r"must be cipher suites of TLSv1\.2"):
        ListenerSettings(ssl_cipher_suites=suites)
    with pytest.raises(SettingsError, match=r"must be cipher suites of TLSv1\.2"):
        HttpSettings(ssl_cipher_suites=suites)
    with pytest.raises(SettingsError, match=r"must be cipher suites of TLSv1\.2"):
        PulsarSettings(tls_ciphers=suites)


@pytest.mark.parametrize("protocols", ["", "TLSv1", "TLSv1.1,TLSv1.2", "SSLv3", "tlsv1.3", "TLSv1.2;TLSv1.3"])
def test_other_versions_are_refused(protocols: str) -> None:
    with pytest.raises(SettingsError, match=r'must be "TLSv1\.2", "TLSv1\.3"'):
        ListenerSettings(ssl_enabled_protocols=protocols)


def test_suites_of_a_version_that_is_not_enabled_are_refused() -> None:
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    with pytest.raises(SettingsError, match=r"http: cipher suites are chosen for TLSv1\.2"):
        HttpSettings(ssl_cipher_suites=suite, ssl_enabled_protocols="TLSv1.3")
    with pytest.raises(SettingsError, match=r"pulsar: cipher suites are chosen for TLSv1\.2"):
        PulsarSettings(tls_ciphers=suite, tls_protocols="TLSv1.3")


def test_a_context_is_limited_to_them() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    TlsLimits("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256").apply(context)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    chosen = [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert chosen == ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"]


@pytest.mark.parametrize("section", [HttpSettings, PulsarSettings])
def test_files_of_a_certificate_go_together(section: type) -> None:
    names = {
        HttpSettings: ("ssl_certificate_file", "ssl_key_file", "ssl_keystore_file", "ssl_key_password_file"),
        PulsarSettings: ("tls_cert_file", "tls_key_file", "tls_keystore_file", "tls_key_password_file"),
    }[section]
    certificate, key, keystore, password = names
    for wrong in ((certificate,), (key,), (certificate, key, keystore), (key, keystore), (password,)):
        with pytest.raises(SettingsError, match="set"):
            section(**dict.fromkeys(wrong, __file__))
    for right in ((), (certificate, key), (certificate, key, password), (keystore,), (keystore, password)):
        section(**dict.fromkeys(right, __file__))
