"""Certificates that change while connections are open: taken by new connections, refused where they are unfit."""

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bridge.config import Settings
from bridge.connection import certificates
from bridge.connection.certificates import ListenerTls
from bridge.errors import StartupError
from bridge.metrics import TlsMetrics
from tests.connection import harness
from tests.connection.harness import ECHO, Tls, connected, request, serving
from tests.connection.tls_client import client_context, open_tls
from tests.support.certificates import COMMON_NAME, Authority, CertificateFiles


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
    former, expires = tls.context, dict(metrics.certificate_expires)
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
        assert metrics.certificate_expires == expires
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
    assert set(metrics.certificate_expires) == {"SSL"}


def test_an_encrypted_key_is_refused_without_asking_at_the_terminal(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    files = Authority(tmp_path).sign("server")
    key = load_pem_private_key(Path(files.key).read_bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    Path(files.key).write_bytes(encrypted)
    with pytest.raises(StartupError, match="the private key is encrypted"):
        listener_tls(files)


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
    authority = Authority(tmp_path)
    files, own = authority.sign("server"), authority.sign("client", {COMMON_NAME: "alice"})
    settings = {
        "ssl_certificate_file": files.certificate,
        "ssl_key_file": files.key,
        "ssl_client_auth": "required",
        "ssl_client_ca_file": authority.file,
        "ssl_principal_mapping_rules": rules,
    }
    context = client_context(authority.file)
    context.load_cert_chain(own.certificate, own.key)
    monkeypatch.setattr(harness, "TLS", Tls(settings, context))
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1))
        if principal is None:
            assert await client.closed() == b""
            assert bench.metrics.rejections()["no_principal"] == 1
        else:
            assert (await client.receive()).number == 1
            assert [str(one) for one in bench.principals] == [principal]
