"""Certificates for tests, signed by their own keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@cache
def key() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(subject: x509.Name, *hosts: str) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if hosts else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")]))
        .public_key(key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), False)
    return builder.sign(key(), SHA256())


def key_pem() -> bytes:
    return bytes(key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
