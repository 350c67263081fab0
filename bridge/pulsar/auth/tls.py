"""TLS towards Pulsar: what the settings say of it, read again when the files change."""

import os
import ssl

from bridge.config import PulsarSettings
from bridge.errors import SettingsError
from bridge.net.own_certificate import OwnCertificate
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

_log = log.get(__name__)
_Stamp = tuple[tuple[int, int, int], ...]


def own_certificate(settings: PulsarSettings) -> OwnCertificate:
    """By which the bridge is known to Pulsar, where it has one."""
    return OwnCertificate(
        settings.tls_cert_file, settings.tls_key_file, settings.tls_keystore_file, settings.tls_key_password_file
    )


class ClientTls:
    """The context that a new connection shakes hands with; those that are open go on with what they have."""

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._own = own_certificate(settings)
        self._files = [*([settings.tls_ca_file] if settings.tls_ca_file else []), *self._own.files]
        self._stamp: _Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._told = ""  # why the files were refused last

    def context(self) -> ssl.SSLContext:
        """Of the files as they are now; while these are unfit, as they were. SettingsError if they never were fit."""
        try:
            stamp = _stamp(self._files)
            if self._context is None or stamp != self._stamp:
                self._context = self._load()
                if self._stamp is not None:
                    _log.info("= pulsar certificates taken", extra={"files": ", ".join(self._files)})
                self._stamp, self._told = stamp, ""
        except (OSError, ssl.SSLError, ValueError) as error:
            why = _why(error)
            if self._context is None:
                raise SettingsError(f"pulsar.tls_ca_file and the certificate of the bridge: {why}") from None
            if why != self._told:  # perhaps only half of the files are written yet: they are looked at again
                self._told = why
                self._metrics.certificate_reload_errors.inc()
                _log.error("! pulsar certificates not taken, the former ones stay", extra={"reason": why})
        return self._context

    def _load(self) -> ssl.SSLContext:
        """Certificates are verified unless the settings say otherwise."""
        settings = self._settings
        context = ssl.create_default_context(cafile=settings.tls_ca_file or None)
        settings.tls_limits.apply(context)
        if settings.tls_allow_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.check_hostname = settings.tls_verify_hostname
        if settings.has_certificate:
            self._metrics.certificate_expires_seconds["tls_cert_file"] = self._own.load_into(context)
        return context


def _stamp(files: list[str]) -> _Stamp:
    found = map(os.stat, files)
    return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
