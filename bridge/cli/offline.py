"""`bridge check --offline`: whether the settings, and the files that they name, are fit; nothing is connected to."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time

from bridge.access.password_file import PasswordFile
from bridge.check.files import examine_files
from bridge.check.findings import Finding, Severity
from bridge.config import Settings
from bridge.connection.listeners.certificates import ListenerTls
from bridge.errors import BridgeError
from bridge.http.access import HttpAccess
from bridge.http.tls import HttpTls
from bridge.pulsar.auth.credentials import TokenFile
from bridge.pulsar.auth.tls import ClientTls
from bridge.telemetry.instruments import Counter
from bridge.telemetry.metrics import PulsarMetrics, TlsMetrics


def examine(settings: Settings, file: Path | None) -> list[Finding]:
    """Settings that have been loaded are right; `file`: theirs."""
    listeners = ", ".join(f"{one.name} at {one.listen}" for one in settings.listeners)
    read = Finding("settings", Severity.FIT, f"of {file or 'the environment'}: {listeners}", "")
    metrics = TlsMetrics()
    tried = [_tried(name, what, metrics) for name, what in _files(settings, metrics)]
    return [read, *tried, *examine_files(settings, file)]


def _files(settings: Settings, metrics: TlsMetrics) -> Iterator[tuple[str, Callable[[], object]]]:
    """What the start would read, by name."""
    for one in settings.listeners:
        if one.protocol.has_tls:
            yield f"listener.{one.name}", lambda plan=one: ListenerTls(plan, metrics)  # type: ignore[misc]
    if settings.http.has_tls:
        yield "http", lambda: HttpTls(settings.http, metrics)
    if settings.http.token_file:
        yield "http.token_file", lambda: HttpAccess(settings.http, Counter())
    for name in ("token_file", "proxy_token_file"):
        if path := getattr(settings.pulsar, name):
            yield f"pulsar.{name}", TokenFile(path, PulsarMetrics()).read
    if settings.pulsar.service_url.startswith("pulsar+ssl:"):
        yield "pulsar's TLS", ClientTls(settings.pulsar, PulsarMetrics()).context
    if settings.security.password_file:
        yield "password file", lambda: PasswordFile(Path(settings.security.password_file))


def _tried(name: str, what: Callable[[], object], metrics: TlsMetrics) -> Finding:
    """What comes of reading these files; `metrics` is told when their certificate ends."""
    before = set(metrics.certificate_expires_seconds)
    try:
        what()
    except BridgeError as error:
        return Finding(name, Severity.UNFIT, str(error), "")
    for listener, ends_at in metrics.certificate_expires_seconds.items():
        if listener not in before and ends_at <= time():
            ended = f"its certificate ended at {datetime.fromtimestamp(ends_at, UTC):%Y-%m-%d %H:%M} UTC"
            return Finding(name, Severity.UNFIT, f"{ended}: clients refuse it", "renew the certificate")
    return Finding(name, Severity.FIT, "its files can be read", "")
