"""Certificates and tokens that are replaced all the time, good ones and bad ones, and what is seen of it."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from bridge.telemetry.metrics import TlsMetrics
from tests.support.certificates import COMMON_NAME, Authority

_UNTIL_SECONDS = 30.0


class Certificates(threading.Thread):
    """Puts one certificate after another in place of a listener's: each second one is sound, the others are bad."""

    def __init__(self, authority: Authority, address: str, metrics: TlsMetrics, between: float) -> None:
        super().__init__(name="certificates", daemon=True)
        self.files = authority.sign("server")
        self.taken = 0
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.handshakes = 0
        self._authority, self._metrics, self._between = authority, metrics, between
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._ending = threading.Event()
        self._bad: dict[str, Callable[[], None]] = {
            "damaged": self._damage,
            "expired": self._expire,
            "of another key": self._mix,
            "empty": self._empty,
        }

    def run(self) -> None:
        """Each is awaited: a sound one until it is shown, a bad one until it is told of, while the former is shown."""
        try:
            for number, (name, spoil) in enumerate(cycle(self._bad.items())):
                shown = f"good-{number}"
                self._authority.sign("server", {COMMON_NAME: shown})
                self._await(lambda shown=shown: self._shown() == shown, f"{shown} is not shown")  # type: ignore[misc]
                self.taken += 1
                self._pause()
                errors = self._metrics.reload_errors.value
                spoil()
                self._await(lambda told=errors: self._metrics.reload_errors.value > told, f"{name} is not told of")  # type: ignore[misc]
                if self._shown() != shown:
                    self.wrong.append(f"{name} is shown")
                self.refused[name] += 1
                self._pause()
                if self._ending.is_set():
                    break
        except Exception as error:  # noqa: BLE001 - told to the test, which fails
            self.wrong.append(repr(error))

    def finish(self) -> None:
        """Replace no more."""
        self._ending.set()
        self.join(2 * _UNTIL_SECONDS)

    def _pause(self) -> None:
        self._ending.wait(self._between)

    def _await(self, condition: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + _UNTIL_SECONDS
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(otherwise)
            self._ending.wait(0.05)

    def _shown(self) -> str:
        """Whose certificate a new connection is shown; ssl.SSLError where it is none that a client takes."""
        context = ssl.create_default_context(cafile=self._authority.file)
        with (
            socket.create_connection((self._host, self._port), timeout=_UNTIL_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as tls,
        ):
            self.handshakes += 1
            subject: Any = tls.getpeercert()
            return str(subject["subject"][0][0][1])

    def _damage(self) -> None:
        path = Path(self.files.certificate)
        der = bytearray(ssl.PEM_cert_to_DER_cert(path.read_text()))
        der[random.randrange(4)] ^= 0xFF  # its lengths are wrong then
        path.write_text(ssl.DER_cert_to_PEM_cert(bytes(der)))

    def _expire(self) -> None:
        self._authority.sign("server", lasts=-timedelta(hours=1))

    def _empty(self) -> None:
        Path(self.files.certificate).write_bytes(b"")

    def _mix(self) -> None:
        key = Path(self.files.key)
        Path(self._authority.sign("other").key).rename(key)


class TokenFile(threading.Thread):
    """A file in which there is always a token that holds for a while."""

    def __init__(self, path: Path, make: Callable[[], str], every: float) -> None:
        super().__init__(name=path.name, daemon=True)
        self.path = path
        self.renewed = 0
        self._make, self._every = make, every
        self._ending = threading.Event()
        self._renew()

    def run(self) -> None:
        """Until it is to end."""
        while not self._ending.wait(self._every):
            self._renew()

    def finish(self) -> None:
        """Renew no more."""
        self._ending.set()
        self.join()

    def _renew(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(self._make())
        new.rename(self.path)
        self.renewed += 1


class Audit(logging.Handler):
    """What the audit log says of log-ins."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Counter[str] = Counter()
        """Log-ins of new connections, by user."""
        self.again: Counter[str] = Counter()
        """Those of the same connection (KIP-368)."""
        self.refused: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        fields = record.__dict__["fields"]
        if "logged in" in record.getMessage():
            (self.again if fields["again"] else self.first)[fields["principal"].name] += 1
        elif "refused" in record.getMessage():
            self.refused.append(f"{fields['name']}: {fields['reason']}")
