"""Certificates for the tests: an authority, and what it signs, as PEM files."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)
COMMON_NAME = NameOID.COMMON_NAME


class CertificateFiles(NamedTuple):
    """A certificate and its key."""

    certificate: str
    key: str


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = _name({COMMON_NAME: name})
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = builder_of(self._name, self._name, self._key, _DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._withdrawn: list[int] = []
        self.file = str(directory / f"{name}.pem")
        Path(self.file).write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        file: str,
        subject: dict[x509.ObjectIdentifier, str] | None = None,
        lasts: timedelta = _DAY,
        addresses: Sequence[str] = ("127.0.0.1",),
    ) -> CertificateFiles:
        """A certificate for localhost and these addresses, with its key, in files of this name; again: over them."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(subject or {COMMON_NAME: "localhost"})
        hosts = [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(one)) for one in addresses)]
        builder = builder_of(name, self._name, key, lasts).add_extension(x509.SubjectAlternativeName(hosts), False)
        files = CertificateFiles(*(str(self._directory / f"{file}.{kind}.pem") for kind in ("cert", "key")))
        Path(files.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        signed = builder.sign(self._key, hashes.SHA256())
        Path(files.certificate).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return files

    def withdraw(self, *files: CertificateFiles, lasts: timedelta = _DAY) -> str:
        """The file of the list of withdrawn certificates (CRL), with these on it and those of before."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(now - 2 * _DAY).next_update(now + lasts)
        for one in files:
            self._withdrawn.append(x509.load_pem_x509_certificate(Path(one.certificate).read_bytes()).serial_number)
        for number in self._withdrawn:
            revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - _DAY).build()
            builder = builder.add_revoked_certificate(revoked)
        path = self._directory / "withdrawn.pem"
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return str(path)


def _name(parts: dict[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts.items()])


def builder_of(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta = _DAY
) -> x509.CertificateBuilder:
    """A certificate to be signed."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + lasts)
    )
