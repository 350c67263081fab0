"""How this client proves who it is, and checks who the broker is: token and TLS."""

import ssl
from pathlib import Path

from bridge.config import PulsarSettings
from bridge.errors import SettingsError


class Token:
    """The token of the settings, read again for each use so that a rotated file takes effect."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._token = settings.token
        self._file = Path(settings.token_file) if settings.token_file else None

    @property
    def method(self) -> str:
        """Pulsar's name of the authentication method."""
        return "token" if self._token or self._file else "none"

    def data(self) -> bytes:
        """What CommandConnect and CommandAuthResponse carry."""
        if self._file is None:
            return self._token.encode()
        try:
            return self._file.read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"pulsar.token_file: cannot read {self._file}: {error.strerror}") from None

    def http_headers(self) -> dict[str, str]:
        """The same for HTTP."""
        data = self.data()
        return {"Authorization": f"Bearer {data.decode()}"} if data else {}


def tls_context(settings: PulsarSettings) -> ssl.SSLContext:
    """The TLS side of the settings; certificates are verified unless the settings say otherwise."""
    context = ssl.create_default_context(cafile=settings.tls_ca_file or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_allow_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.check_hostname = settings.tls_verify_hostname
    if settings.tls_cert_file:
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    return context
