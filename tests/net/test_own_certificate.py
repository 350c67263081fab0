"""A certificate of one's own: from PEM with an encrypted key, from key stores of OpenSSL's and Java's making."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path

import pytest

from bridge.check.state_access import own_role
from bridge.config import Settings
from bridge.net.own_certificate import OwnCertificate
from bridge.pulsar import Access
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.certificates import Authority

PASSWORD = "the password"  # noqa: S105
pytestmark = pytest.mark.programs


class Place:
    """A certificate in each form."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory)
        self.files = self.authority.sign("server")
        self.password = self.written("password", f"{PASSWORD}\n")

    def written(self, name: str, text: str) -> str:
        (self.directory / name).write_text(text)
        return str(self.directory / name)

    def openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def encrypted_key(self) -> str:
        made = str(self.directory / "encrypted.pem")
        self.openssl("pkcs8", "-topk8", "-in", self.files.key, "-out", made, "-passout", f"pass:{PASSWORD}")
        return made

    def keystore(self, *more: str) -> str:
        made = str(self.directory / "keystore.p12")
        self.openssl(
            "pkcs12", "-export", "-inkey", self.files.key, "-in", self.files.certificate, "-out", made,
            "-certfile", self.authority.file, "-passout", f"pass:{PASSWORD}", *more,
        )  # fmt: skip
        return made

    def javas_keystore(self) -> str:
        made = str(self.directory / "java.p12")
        subprocess.run(
            [
                "keytool", "-importkeystore", "-srckeystore", self.keystore(), "-srcstoretype", "PKCS12",
                "-srcstorepass", PASSWORD, "-destkeystore", made, "-deststoretype", "PKCS12",
                "-deststorepass", PASSWORD,
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        return made

    def handshake(self, own: OwnCertificate) -> None:
        """A client that trusts the authority takes what the server shows."""
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        assert own.load_into(server) > 0
        client = ssl.create_default_context(cafile=self.authority.file)
        ways = ssl.MemoryBIO(), ssl.MemoryBIO()
        sides = [
            client.wrap_bio(ways[0], ways[1], server_hostname="localhost"),
            server.wrap_bio(ways[1], ways[0], server_side=True),
        ]
        for side in sides * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        assert sides[0].getpeercert()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_key_with_a_password(place: Place) -> None:
    place.handshake(OwnCertificate(place.files.certificate, place.encrypted_key(), "", place.password))


def test_a_key_without_one_needs_none_and_may_have_its_file(place: Place) -> None:
    place.handshake(OwnCertificate(*place.files, "", ""))
    place.handshake(OwnCertificate(*place.files, "", place.password))


@pytest.mark.parametrize("more", [(), ("-legacy",)], ids=["as now", "as before OpenSSL 3"])
def test_a_key_store_of_openssl(place: Place, more: tuple[str, ...]) -> None:
    place.handshake(OwnCertificate("", "", place.keystore(*more), place.password))


def test_a_key_store_of_java(place: Place) -> None:
    place.handshake(OwnCertificate("", "", place.javas_keystore(), place.password))


def test_the_key_of_a_store_is_left_on_no_disk_and_in_no_open_file(place: Place) -> None:
    keystore = place.keystore()
    before = sorted(os.listdir(place.directory)), len(os.listdir("/proc/self/fd"))
    OwnCertificate("", "", keystore, place.password).load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    assert (sorted(os.listdir(place.directory)), len(os.listdir("/proc/self/fd"))) == before


def test_what_is_unfit_is_named_and_no_password_is(place: Place) -> None:
    encrypted, keystore = place.encrypted_key(), place.keystore()
    wrong, empty = place.written("wrong", "another password"), place.written("empty", "\n")
    certificate = place.files.certificate
    cases = {
        "no setting names the file of its password": OwnCertificate(certificate, encrypted, "", ""),
        "encrypted.pem: ": OwnCertificate(certificate, encrypted, "", wrong),
        "there is no password in it": OwnCertificate(certificate, encrypted, "", empty),
        "its password is another one": OwnCertificate("", "", keystore, wrong),
        "no PKCS12 key store": OwnCertificate("", "", certificate, place.password),
    }
    for said, own in cases.items():
        with pytest.raises(ValueError, match=said) as raised:
            own.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        assert "password\n" not in str(raised.value) and "another password" not in str(raised.value)
    place.openssl(
        "pkcs12", "-export", "-nokeys", "-in", place.authority.file, "-out", keystore, "-passout", f"pass:{PASSWORD}"
    )
    with pytest.raises(ValueError, match="it has no key with a certificate"):
        OwnCertificate("", "", keystore, place.password).load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


async def test_the_role_of_a_bridge_is_its_certificate_s_name_in_each_form(place: Place) -> None:
    pem = {"tls_cert_file": place.files.certificate, "tls_key_file": place.files.key}
    store = {"tls_keystore_file": place.keystore(), "tls_key_password_file": place.password}
    for files in (pem, store):
        settings = Settings().with_values(pulsar={"service_url": "pulsar+ssl://localhost:6651", **files}).pulsar
        assert await own_role(settings, Access.by(settings, PulsarMetrics()), None) == "localhost"
