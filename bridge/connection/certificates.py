"""A server's TLS: its certificate and the authorities that it trusts, read again when their files change."""

import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridge import log
from bridge.certificate_end import ends_at
from bridge.config import ListenerPlan, ListenerSettings
from bridge.errors import StartupError
from bridge.metrics import TlsMetrics
from bridge.security.mapping import PrincipalMapping
from bridge.security.principal import ANONYMOUS, Principal, user

_log = log.get(__name__)

REFRESH_SECONDS: Final = 5.0
"""How often the files are looked at."""
_OPTIONS: Final = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
_Stamp = tuple[tuple[int, int, int], ...]


class ServerTls:
    """What new connections shake hands with; those that are established go on with what they have."""

    def __init__(self, name: str, section: str, settings: ListenerSettings, metrics: TlsMetrics) -> None:
        """`name`: in metrics and the log; `section`: where its settings are. StartupError where a file is unfit."""
        self._name, self._settings, self._metrics = name, settings, metrics
        files = (settings.ssl_certificate_file, settings.ssl_key_file, settings.ssl_client_ca_file)
        self._files = [file for file in files if file]
        self._stamp: _Stamp = ()
        self._told = ""  # why the files were refused last
        try:
            self._stamp = _stamp(self._files)
            self.context, expires_at = self._load()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise StartupError(f"{section}: {_why(error)}") from None
        self._tell(expires_at)
        if expires_at <= time.time():  # other listeners are to start all the same
            _log.error("! certificate has expired: clients refuse it", extra=self._fields(expires_at))

    def refresh(self) -> None:
        """Take what has changed in the files, if it is fit."""
        try:
            stamp = _stamp(self._files)
            if stamp == self._stamp:
                return
            context, expires_at = self._load()
            if expires_at <= time.time():
                raise ValueError(f"{self._settings.ssl_certificate_file}: the new certificate has expired")
        except (OSError, ssl.SSLError, ValueError) as error:
            # perhaps only half of the files are written yet: they are looked at again
            why = _why(error)
            if why != self._told:
                self._told = why
                self._metrics.reload_errors.inc()
                _log.error("! certificate not taken, the former one stays", extra=self._fields(error=why))
            return
        self.context, self._stamp = context, stamp
        self._tell(expires_at)
        self._metrics.reloads.inc()
        _log.info("= certificate taken", extra=self._fields(expires_at))

    def _load(self) -> tuple[ssl.SSLContext, float]:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= _OPTIONS
        try:
            context.load_cert_chain(settings.ssl_certificate_file, settings.ssl_key_file, _no_password)
        except ssl.SSLError as error:
            files = f"{settings.ssl_certificate_file} and {settings.ssl_key_file}"
            raise ValueError(f"{files}: {error.reason or error}") from None
        if settings.ssl_client_auth != "none":
            try:
                context.load_verify_locations(settings.ssl_client_ca_file)
            except ssl.SSLError as error:
                raise ValueError(f"{settings.ssl_client_ca_file}: {error.reason or error}") from None
            required = settings.ssl_client_auth == "required"
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            # a resumed session would not show the client's certificate again
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context, ends_at(Path(settings.ssl_certificate_file).read_bytes())

    def _tell(self, expires_at: float) -> None:
        self._told = ""
        self._metrics.certificate_expires[self._name] = expires_at

    def _fields(self, expires_at: float | None = None, **fields: object) -> dict[str, object]:
        files = {"listener": self._name, "file": self._settings.ssl_certificate_file}
        if expires_at is not None:
            fields["expires"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires_at))
        return {**files, **fields}


class ListenerTls(ServerTls):
    """A listener's, whose clients may be named by their certificates."""

    def __init__(self, plan: ListenerPlan, metrics: TlsMetrics) -> None:
        """StartupError where a file is unfit."""
        section = f"listener.{plan.name}"
        super().__init__(plan.name, section, plan.settings, metrics)
        try:
            self._mapping = PrincipalMapping(plan.settings.ssl_principal_mapping_rules)
        except ValueError as error:
            raise StartupError(f"{section}: {error}") from None

    def principal_of(self, established: ssl.SSLObject) -> Principal:
        """Whom a client's certificate names; ANONYMOUS where it shows none. NoMatchingRule, ValueError."""
        certificate = established.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        from bridge.security import distinguished_name  # only where clients show certificates: it takes time to import

        return user(self._mapping.name(distinguished_name.of_certificate(certificate)))


def _stamp(files: Sequence[str]) -> _Stamp:
    found = map(os.stat, files)
    return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


def _no_password() -> str:
    raise ValueError("the private key is encrypted: there is no setting for its password")


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
