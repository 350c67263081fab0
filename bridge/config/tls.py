"""Settings of TLS that listeners, metrics and Pulsar's side share: versions, suites, the files of a certificate."""

import re
import ssl
from dataclasses import dataclass
from typing import Any, Final

from bridge.config.rules import entries, parses, text
from bridge.errors import SettingsError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""By Java's names. There are no older ones: RFC 8996."""
BOTH: Final = "TLSv1.2,TLSv1.3"


@dataclass(frozen=True, slots=True)
class TlsLimits:
    """With which versions and suites a context may shake hands."""

    protocols: str = BOTH
    cipher_suites: str = ""

    def apply(self, context: ssl.SSLContext) -> None:
        """Allow these and no others."""
        versions = [_VERSIONS[one] for one in entries(self.protocols)]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if self.cipher_suites:
            context.set_ciphers(_openssl_list(self.cipher_suites))

    def check(self, section: str) -> None:
        """Raise SettingsError where the suites are of no version that is allowed."""
        if self.cipher_suites and _VERSIONS["TLSv1.2"] not in map(_VERSIONS.get, entries(self.protocols)):
            raise SettingsError(f"{section}: cipher suites are chosen for TLSv1.2 alone, and it is not enabled")


def protocols() -> str:
    """A setting that is versions of TLS."""
    return text(BOTH, '"TLSv1.2", "TLSv1.3", or both by a comma', lambda value: _are_versions(entries(value)))


def cipher_suites() -> str:
    """A setting that is cipher suites."""
    allowed = "cipher suites of TLSv1.2, by Java's or OpenSSL's names, several by commas (TLSv1.3 has its own)"
    return text("", allowed, lambda value: parses(_openssl_list, value))


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """The names that a section has for the files of its own certificate."""

    certificate: str
    key: str
    keystore: str
    password: str

    def check(self, section: str, settings: Any) -> bool:
        """Whether there is a certificate; SettingsError where its files do not go together."""
        certificate, key, keystore, password = (
            bool(getattr(settings, name)) for name in (self.certificate, self.key, self.keystore, self.password)
        )
        if keystore and (certificate or key):
            other = self.certificate if certificate else self.key
            raise SettingsError(f"{section}.{self.keystore} and {section}.{other} are both set: keep one of them")
        if certificate != key:
            here, missing = (self.certificate, self.key) if certificate else (self.key, self.certificate)
            raise SettingsError(f"{section}.{here} is set without {section}.{missing}: set both or neither")
        if password and not (key or keystore):
            raise SettingsError(f"{section}.{self.password} is set without {section}.{self.key}")
        return certificate or keystore


SERVER: Final = CertificateNames("ssl_certificate_file", "ssl_key_file", "ssl_keystore_file", "ssl_key_password_file")
CLIENT: Final = CertificateNames("tls_cert_file", "tls_key_file", "tls_keystore_file", "tls_key_password_file")


def openssl_name(suite: str) -> str:
    """What OpenSSL calls a suite that is named as in Java (TLS_RSA_WITH_AES_128_GCM_SHA256); others as they are."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not cipher:
        return suite
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC_", "_").replace("CCM_8", "CCM8")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _are_versions(names: list[str]) -> bool:
    return bool(names) and set(names) <= _VERSIONS.keys()


def _openssl_list(suites: str) -> str:
    """As `set_ciphers` takes them. ValueError where a name is none of one suite, or of one that protects nothing.

    OpenSSL leaves out what it does not know, and takes words for many suites ("ALL", "@SECLEVEL=0").
    """
    names = [openssl_name(one) for one in entries(suites)]
    for name in names:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ValueError(f"{name} is no cipher suite of TLSv1.2") from None
        chosen = [one for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]
        if [one["name"] for one in chosen] != [name] or any(map(_protects_nothing, chosen)):
            raise ValueError(f"{name} is no cipher suite that can be chosen")
    return ":".join(names)


def _protects_nothing(suite: Any) -> bool:
    """Whether it has no key of the server's, or none at all."""
    return "Au=None" in suite["description"] or "Enc=None" in suite["description"]
