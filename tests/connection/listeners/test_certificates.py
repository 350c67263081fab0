"""Certificates that change while connections are open: taken by new connections, refused where they are unfit."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bridge.config import Settings
from bridge.connection.listeners import certificates
from bridge.connection.listeners.certificates import ListenerTls
from bridge.errors import StartupError
from bridge.telemetry.metrics import TlsMetrics
from tests.connection import harness
from tests.connection.harness import ECHO, Tls, connected, request, serving
from tests.connection.tls_client import client_context, open_tls
from tests.support.certificates import COMMON_NAME, Authority, CertificateFiles
from tests.support.waiting import until


def listener_tls(files: CertificateFiles, **settings: object) -> tuple[ListenerTls, TlsMetrics]:
    table = {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key, **settings}
    made = Settings().with_values(kafka={"listeners": "SSL://127.0.0.1:0"}, listener={"SSL": table})
    metrics = TlsMetrics()
    return ListenerTls(made.listeners[0], metrics), metrics


def damage(file: str) -> None:
    """Give a certificate a version that there is not: OpenSSL takes it, its key being right."""
    der = ssl.PEM_cert_to_DER_cert(Path(file).read_text())
    damaged = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x72", 1)
    Path(file).write_text(ssl.DER_cert_to_PEM_cert(damaged))


def encrypt(files: CertificateFiles, password: bytes = b"x") -> None:
    key = load_pem_private_key(Path(files.key).read_bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    Path(files.key).write_bytes(encrypted)


async def test_new_connections_get_the_new_certificate_and_old_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("server", {COMMON_NAME: "first"})
    settings = {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key}
    monkeypatch.setattr(harness, "TLS", Tls(settings, client_context(authority.file)))
    async with serving() as bench, connected(bench) as old:
        authority.sign("server", {COMMON_NAME: "second"})
        tls = bench.listener._tls
        assert tls is not None
        tls.refresh()
        async with connected(bench) as new:
            for client, name in ((old, "first"), (new, "second")):
                client.send(request(ECHO, 1))
                assert (await client.receive()).number == 1
                assert ((("commonName", name),),) == client.writer.tls.getpeercert()["subject"]
        assert bench.metrics.tls.reloads.value == 1


def test_an_unfit_new_one_is_told_of_once_and_the_former_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    tls, metrics = listener_tls(authority.sign("server"))
    former, expires = tls.context, dict(metrics.certificate_expires_seconds)
    other = authority.sign("other")
    good = Path(other.key).read_bytes()
    unfit: dict[str, Callable[[], object]] = {
        "a key of another": lambda: Path(tmp_path / "server.key.pem").write_bytes(good),
        "no PEM": lambda: Path(tmp_path / "server.cert.pem").write_text("nothing"),
        "of a version that is not": lambda: damage(authority.sign("server").certificate),
        "expired": lambda: authority.sign("server", lasts=-timedelta(hours=1)),
        "gone": lambda: Path(tmp_path / "server.cert.pem").unlink(),
    }
    for number, what in enumerate(unfit, 1):
        unfit[what]()
        tls.refresh()
        tls.refresh()
        assert metrics.reload_errors.value == number
        assert tls.context is former
        assert metrics.certificate_expires_seconds == expires
    said = [str(record.__dict__["fields"]["error"]) for record in caplog.records]
    assert "KEY_VALUES_MISMATCH" in said[0]
    assert "valid X509 version" in said[2]
    assert "has expired" in said[3]
    assert "No such file" in said[4]
    authority.sign("server")
    tls.refresh()
    assert (metrics.reloads.value, tls.context is former) == (1, False)


def test_at_the_start_unfit_files_are_named_and_an_expired_one_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    one, other = authority.sign("one"), authority.sign("other")
    with pytest.raises(StartupError, match=r"listener.SSL: .*one.cert.pem.*KEY_VALUES_MISMATCH"):
        listener_tls(CertificateFiles(one.certificate, other.key))
    _, metrics = listener_tls(authority.sign("expired", lasts=-timedelta(hours=1)))
    assert "certificate has expired" in caplog.text
    assert set(metrics.certificate_expires_seconds) == {"SSL"}


def test_an_encrypted_key_without_a_password_is_refused_without_asking_at_the_terminal(tmp_path: Path) -> None:
    files = Authority(tmp_path).sign("server")
    encrypt(files)
    with pytest.raises(StartupError, match="the private key is encrypted"):
        listener_tls(files)


def test_an_encrypted_key_is_taken_again_when_key_and_password_have_changed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files, password = authority.sign("server"), tmp_path / "password"
    encrypt(files, b"first")
    password.write_text("first")
    tls, metrics = listener_tls(files, ssl_key_password_file=str(password))
    authority.sign("server")
    encrypt(files, b"second")
    tls.refresh()
    assert (metrics.reloads.value, metrics.reload_errors.value) == (0, 1)
    password.write_text("second")
    tls.refresh()
    assert (metrics.reloads.value, metrics.reload_errors.value) == (1, 1)


def alice_at(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, **more: str
) -> tuple[CertificateFiles, ssl.SSLContext]:
    """A listener that asks for certificates; alice's, and the context by which clients connect with it."""
    files, own = authority.sign("server"), authority.sign("client", {COMMON_NAME: "alice"})
    settings = {
        "ssl_certificate_file": files.certificate,
        "ssl_key_file": files.key,
        "ssl_client_auth": "required",
        "ssl_client_ca_file": authority.file,
        **more,
    }
    context = client_context(authority.file)
    context.load_cert_chain(own.certificate, own.key)
    monkeypatch.setattr(harness, "TLS", Tls(settings, context))
    return own, context


# ---- withdrawn certificates ------------------------------------------------------------------------------------------


async def test_a_withdrawn_certificate_lets_no_one_in_from_the_next_look_at_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    own, context = alice_at(authority, monkeypatch, ssl_client_crl_file=authority.withdraw())
    async with serving() as bench, connected(bench) as open_one:
        open_one.send(request(ECHO, 1))
        assert (await open_one.receive()).number == 1
        assert bench.metrics.tls.crl_expires_seconds["SSL"] > 0
        authority.withdraw(own)
        tls = bench.listener._tls
        assert tls is not None
        tls.refresh()
        assert bench.metrics.tls.reloads.value == 1
        reader, writer = await open_tls(bench.port, context)
        writer.write(request(ECHO, 2))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert await reader.read(4) == b""
            raise ConnectionResetError
        writer.close()
        open_one.send(request(ECHO, 3))
        assert (await open_one.receive()).number == 3, "open connections go on"
        await until(lambda: bench.metrics.tls.handshakes["failed"].value == 1)
    (said,) = (one for one in caplog.records if one.getMessage() == "! no TLS handshake")
    assert said.__dict__["fields"]["reason"] == "CERTIFICATE_VERIFY_FAILED: certificate revoked"


@pytest.mark.parametrize("list_of", ["another authority", "the past"])
async def test_without_a_list_of_its_authority_or_with_an_old_one_no_certificate_lets_in(
    list_of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    past = list_of == "the past"
    lists = authority.withdraw(lasts=-timedelta(hours=1)) if past else other.withdraw()
    _, context = alice_at(authority, monkeypatch, ssl_client_crl_file=lists)
    async with serving() as bench:
        reader, writer = await open_tls(bench.port, context)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert await reader.read(4) == b""
            raise ConnectionResetError
        writer.close()
        await until(lambda: bench.metrics.tls.handshakes["failed"].value == 1)
    assert ("list of withdrawn certificates is out of date" in caplog.text) is past


def test_an_unfit_list_is_not_taken_and_stops_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    other, files = Authority(tmp_path, "other"), authority.sign("server")
    lists = Path(authority.withdraw())
    wanted = {
        "ssl_client_auth": "requested", "ssl_client_ca_file": authority.file, "ssl_client_crl_file": str(lists),
    }  # fmt: skip
    tls, metrics = listener_tls(files, **wanted)
    former = tls.context
    whole = lists.read_bytes()
    unfit = {
        "it has no certificate revocation list": b"nothing",
        "which would be trusted": whole + Path(other.file).read_bytes(),
        "withdrawn.pem: ": whole[:60] + whole[90:],
    }
    for number, (said, content) in enumerate(unfit.items(), 1):
        lists.write_bytes(content)
        tls.refresh()
        assert (tls.context is former, metrics.reload_errors.value) == (True, number)
        assert said in str(caplog.records[-1].__dict__["fields"]["error"])
        with pytest.raises(StartupError, match=said):
            listener_tls(files, **wanted)
    authority.withdraw(lasts=-timedelta(hours=1))
    tls.refresh()
    assert "the new list is out of date" in str(caplog.records[-1].__dict__["fields"]["error"])
    authority.withdraw()
    tls.refresh()
    assert metrics.reloads.value == 1


# ---- versions and suites ---------------------------------------------------------------------------------------------


@pytest.mark.programs
@pytest.mark.parametrize(
    ("protocols", "suites", "offered", "gets"),
    [
        ("TLSv1.2,TLSv1.3", "", [], "TLSv1.3"),
        ("TLSv1.2", "", [], "TLSv1.2"),
        ("TLSv1.3", "", ["-tls1_2"], None),
        ("TLSv1.2", "", ["-tls1_3"], None),
        ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", [], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305", [], "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256", ["-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"], None),
        ("TLSv1.2,TLSv1.3", "ECDHE-ECDSA-AES128-GCM-SHA256", ["-tls1_3"], "TLS_AES_256_GCM_SHA384"),
    ],
)
async def test_openssls_client_gets_what_is_enabled_and_nothing_else(
    protocols: str, suites: str, offered: list[str], gets: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("server")
    settings = {
        "ssl_certificate_file": files.certificate,
        "ssl_key_file": files.key,
        "ssl_enabled_protocols": protocols,
        "ssl_cipher_suites": suites,
    }
    monkeypatch.setattr(harness, "TLS", Tls(settings, client_context(authority.file)))
    async with serving() as bench:
        client = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", f"127.0.0.1:{bench.port}", "-CAfile", authority.file, *offered,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said = (await client.communicate())[0].decode()
        assert (client.returncode == 0) is (gets is not None)
        assert gets is None or gets in said


@pytest.mark.parametrize(
    ("auth", "with_certificate", "gets_in"),
    [
        ("required", True, True),
        ("required", False, False),
        ("requested", False, True),
        ("requested", True, True),
    ],
)
async def test_clients_show_certificates(
    auth: str, with_certificate: bool, gets_in: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files, own = authority.sign("server"), authority.sign("client", {COMMON_NAME: "alice"})
    settings = {
        "ssl_certificate_file": files.certificate,
        "ssl_key_file": files.key,
        "ssl_client_auth": auth,
        "ssl_client_ca_file": authority.file,
    }
    context = client_context(authority.file)
    if with_certificate:
        context.load_cert_chain(own.certificate, own.key)
    monkeypatch.setattr(harness, "TLS", Tls(settings, context))
    async with serving() as bench:
        reader, writer = await open_tls(bench.port, context)  # in TLS 1.3 a client is done before it is judged
        writer.write(request(ECHO, 1))
        try:
            answered = bool(await reader.read(4))
        except (ssl.SSLError, ConnectionError):
            answered = False
        writer.close()
        assert answered is gets_in
        assert bench.metrics.tls.handshakes["established"].value == int(gets_in)


def test_files_are_looked_at_every_few_seconds() -> None:
    assert certificates.REFRESH_SECONDS <= 5


@pytest.mark.parametrize(
    ("rules", "principal"),
    [("DEFAULT", "User:CN=alice"), ("RULE:^CN=(.*)$/$1/U, DEFAULT", "User:ALICE"), ("RULE:^CN=bob$/bob/", None)],
)
async def test_whom_a_certificate_names(
    rules: str, principal: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice_at(Authority(tmp_path), monkeypatch, ssl_principal_mapping_rules=rules)
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1))
        if principal is None:
            assert await client.closed() == b""
            assert bench.metrics.refusals["no_principal"].value == 1
        else:
            assert (await client.receive()).number == 1
            assert [str(one) for one in bench.principals] == [principal]
