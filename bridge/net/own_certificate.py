"""A certificate with its key, from PEM files or a PKCS12 key store, put into a TLS context."""

import os
import ssl
from pathlib import Path
from typing import NamedTuple

from bridge.net.certificates import ends_at


class OwnCertificate(NamedTuple):
    """The files; those that there are not are empty."""

    certificate: str
    key: str
    keystore: str
    """In place of the two."""
    password: str
    """Of the key, or of the key store."""

    @property
    def files(self) -> list[str]:
        """Those that there are."""
        return [file for file in self if file]

    @property
    def shown(self) -> str:
        """The file by which it is known to operators."""
        return self.keystore or self.certificate

    def pem(self) -> bytes:
        """The certificate, and what else is in its file. OSError, or ValueError with the file that is unfit."""
        if not self.keystore:
            return Path(self.certificate).read_bytes()
        return _pem_of(self.keystore, _password(self.password) if self.password else None)

    def load_into(self, context: ssl.SSLContext) -> float:
        """When it ends, in Unix seconds. OSError, or ValueError with the file that is unfit."""
        if not self.keystore:
            password = _password(self.password) if self.password else None
            _load(context, self.certificate, self.key, password, f"{self.certificate} and {self.key}")
            return ends_at(Path(self.certificate).read_bytes())
        pem = self.pem()
        # `load_cert_chain` takes files alone: this one is never on a disk
        file = os.memfd_create("keystore")
        try:
            with open(file, "wb", closefd=False) as stream:
                stream.write(pem)
            path = f"/proc/self/fd/{file}"
            _load(context, path, path, None, self.keystore)
        finally:
            os.close(file)
        return ends_at(pem)


def _load(context: ssl.SSLContext, certificate: str, key: str, password: bytes | None, shown: str) -> None:
    def asked() -> bytes:
        if password is None:
            raise ValueError(f"{key}: the private key is encrypted, and no setting names the file of its password")
        return password

    try:
        context.load_cert_chain(certificate, key, asked)
    except ssl.SSLError as error:
        for file, what in ((certificate, "CERTIFICATE"), (key, "PRIVATE KEY")):
            if f"{what}-----".encode() not in Path(file).read_bytes():
                raise ValueError(f"{file}: it is no PEM file with a line -----BEGIN {what}-----") from None
        pair = ": they are no pair, take the key that the certificate was made for"
        mismatch = pair if error.reason == "KEY_VALUES_MISMATCH" else ""
        raise ValueError(f"{shown}: {error.reason or error}{mismatch}") from None


def _password(file: str) -> bytes:
    password = Path(file).read_bytes().rstrip(b"\r\n")
    if not password:
        raise ValueError(f"{file}: there is no password in it")
    return password


def _pem_of(keystore: str, password: bytes | None) -> bytes:
    """Key, certificate and those between it and the root."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        store = pkcs12.load_pkcs12(Path(keystore).read_bytes(), password)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"{keystore}: it is no PKCS12 key store, or its password is another one") from None
    if store.key is None or store.cert is None:
        raise ValueError(f"{keystore}: it has no key with a certificate")
    certificates = [store.cert, *store.additional_certs]
    return store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
        one.certificate.public_bytes(Encoding.PEM) for one in certificates
    )
