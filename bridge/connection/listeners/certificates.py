"""A server's TLS: its certificate and the authorities that it trusts, read again when their files change."""

import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridge.config import ListenerPlan, ListenerSettings
from bridge.errors import StartupError
from bridge.net.certificates import lists_end_at
from bridge.net.own_certificate import OwnCertificate
from bridge.security.mapping import PrincipalMapping
from bridge.security.principal import ANONYMOUS, Principal, user
from bridge.telemetry import log
from bridge.telemetry.metrics import TlsMetrics

_log = log.get(__name__)

REFRESH_SECONDS: Final = 5.0
"""How often the files are looked at."""
_OPTIONS: Final = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
_Stamp = tuple[tuple[int, int, int], ...]
_OUT_OF_DATE: Final = "! list of withdrawn certificates is out of date: clients with certificates are refused"


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    expires_at: float
    """When its certificate ends, in Unix seconds."""
    list_expires_at: float | None
    """When the list of withdrawn certificates does; None where there is none."""


class ServerTls:
    """A server's TLS: new connections shake hands with it; established ones go on with what they have."""

    def __init__(self, name: str, section: str, settings: ListenerSettings, metrics: TlsMetrics) -> None:
        """`name`: in metrics and the log; `section`: where its settings are. StartupError where a file is unfit."""
        self._name, self._settings, self._metrics = name, settings, metrics
        self._own = OwnCertificate(
            settings.ssl_certificate_file,
            settings.ssl_key_file,
            settings.ssl_keystore_file,
            settings.ssl_key_password_file,
        )
        of_clients = (settings.ssl_client_ca_file, settings.ssl_client_crl_file)
        self._files = [*self._own.files, *(file for file in of_clients if file)]
        self._stamp: _Stamp = ()
        self._told = ""  # why the files were refused last
        try:
            self._stamp = _stamp(self._files)
            loaded = self._load()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise StartupError(f"{section}: {_why(error)}") from None
        self.context = loaded.context
        self._tell(loaded)
        if loaded.expires_at <= time.time():  # other listeners are to start all the same
            _log.error("! certificate has expired: clients refuse it", extra=self._fields(loaded.expires_at))
        if loaded.list_expires_at is not None and loaded.list_expires_at <= time.time():
            fields = {"listener": name, "file": settings.ssl_client_crl_file}
            _log.error(_OUT_OF_DATE, extra=fields)

    def refresh(self) -> None:
        """Take what has changed in the files, if it is fit."""
        try:
            stamp = _stamp(self._files)
            if stamp == self._stamp:
                return
            loaded = self._load()
            if loaded.expires_at <= time.time():
                raise ValueError(f"{self._own.shown}: the new certificate has expired")
            if loaded.list_expires_at is not None and loaded.list_expires_at <= time.time():
                raise ValueError(f"{self._settings.ssl_client_crl_file}: the new list is out of date")
        except (OSError, ssl.SSLError, ValueError) as error:
            # perhaps only half of the files are written yet: they are looked at again
            why = _why(error)
            if why != self._told:
                self._told = why
                self._metrics.reload_errors.inc()
                _log.error("! certificate not taken, the former one stays", extra=self._fields(error=why))
            return
        self.context, self._stamp = loaded.context, stamp
        self._tell(loaded)
        self._metrics.reloads.inc()
        _log.info("= certificate taken", extra=self._fields(loaded.expires_at))

    def _load(self) -> _Loaded:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        settings.tls_limits.apply(context)
        context.options |= _OPTIONS
        expires_at = self._own.load_into(context)
        list_expires_at = None
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
            if settings.ssl_client_crl_file:
                list_expires_at = _load_lists(context, settings.ssl_client_crl_file)
        return _Loaded(context, expires_at, list_expires_at)

    def _tell(self, loaded: _Loaded) -> None:
        self._told = ""
        self._metrics.certificate_expires_seconds[self._name] = loaded.expires_at
        if loaded.list_expires_at is not None:
            self._metrics.crl_expires_seconds[self._name] = loaded.list_expires_at

    def _fields(self, expires_at: float | None = None, **fields: object) -> dict[str, object]:
        files = {"listener": self._name, "file": self._own.shown}
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


def _load_lists(context: ssl.SSLContext, file: str) -> float:
    """Refuse the certificates that are on these lists, and all whose authorities have none here; when the first list
    ends. ValueError where it is no file of lists."""
    authorities = context.cert_store_stats()["x509"]
    try:
        expires_at = lists_end_at(Path(file).read_bytes())
        context.load_verify_locations(file)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{file}: {getattr(error, 'reason', '') or error}") from None
    if context.cert_store_stats()["x509"] != authorities:
        raise ValueError(f"{file}: it has certificates, which would be trusted as those of authorities")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    return expires_at


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
