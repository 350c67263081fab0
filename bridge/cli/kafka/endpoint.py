"""Where a Kafka is and how one logs in there, as the options of a command say, and what went wrong with it."""

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import Any, Final, TypeVar

from bridge.config import load
from bridge.config.rules import is_every_interface
from bridge.errors import BridgeError, SettingsError, StartupError

try:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
except ImportError:
    raise StartupError("this needs a Kafka client: pip install 'pulsar-kafka-bridge[tools]'") from None

PASSWORD: Final = "BRIDGE_KAFKA_PASSWORD"  # noqa: S105 - the variable's name
SECONDS: Final = 30.0
"""For any answer."""
_REACHED_SECONDS: Final = 15.0
_SINCE: Final = re.compile(r" \(after \d+ms in state .*\)$")
"""What librdkafka adds for its own developers."""
_T = TypeVar("_T")


class KafkaFailed(BridgeError):
    """The endpoint cannot be reached, or has refused something; the message says what."""


class Endpoint:
    """A client's settings for one endpoint, and what librdkafka complained of last."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raises SettingsError, KafkaFailed."""
        self.address = options.bootstrap or _advertised(options.config)
        self._complaint = ""
        log = logging.getLogger("librdkafka")
        log.addHandler(logging.NullHandler())
        log.propagate = False
        self._settings: dict[str, Any] = {
            "bootstrap.servers": self.address,
            "error_cb": self._complained,
            "logger": log,
            "client.id": "bridge-cli",
            **_login(options),
        }
        self.admin = self._reach()
        """Asks and changes things."""

    def settings(self, **others: Any) -> dict[str, Any]:
        """With others, whose names have `_` for librdkafka's dots."""
        return self._settings | {name.replace("_", "."): value for name, value in others.items()}

    def _reach(self) -> AdminClient:
        """One that is connected. A wrong password and a dead server are told at once: librdkafka would try on."""
        admin, until = AdminClient(self.settings()), time.monotonic() + _REACHED_SECONDS
        while True:
            try:
                admin.describe_cluster(request_timeout=1.0).result()
                return admin
            except KafkaException as error:
                admin.poll(0)  # gives what it has complained of
                code = error.args[0]
                if self._complaint or code.code() >= 0 or time.monotonic() > until:
                    raise KafkaFailed(self.reason(code)) from None

    @contextmanager
    def told(self) -> Iterator[None]:
        """What fails in here is a KafkaFailed that says why."""
        try:
            yield
        except KafkaException as error:
            raise KafkaFailed(self.reason(error.args[0])) from None

    def reason(self, error: KafkaError) -> str:
        """What an error says; of one that is librdkafka's own, what it had complained of before."""
        text = str(error.str())
        local = error.code() < 0  # _TRANSPORT, _TIMED_OUT …: no broker said so
        if not local:
            return f"{error.name()}: {text}"
        said = _SINCE.sub("", self._complaint or text)
        elsewhere = "; --bootstrap HOST:PORT names another server" if "Connect to " in said else ""
        return f"{self.address}: {said}{elsewhere}"

    def _complained(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._complaint = str(error.str())


_HINTS: Final = {
    "INVALID_CONFIG": "`bridge topic config TOPIC` shows all",
    "TOPIC_ALREADY_EXISTS": "`bridge topic config` and `bridge topic grow` change it",
    "UNKNOWN_TOPIC_OR_PART": "`bridge topic list` shows those that there are",
}
"""What to do, by librdkafka's names of Kafka's errors."""


def result(future: "Future[_T]", name: str = "") -> _T:
    """An answer; what was refused is said with the name."""
    try:
        return future.result(SECONDS)
    except KafkaException as error:
        code = error.args[0]
        if not name or code.code() < 0:
            raise
        hint = _HINTS.get(code.name(), "")
        raise KafkaFailed(f"{name}: {code.name()}: {code.str()}{hint and f'; {hint}'}") from None


def each(futures: "dict[str, Future[Any]]", done: str) -> int:
    """Print of each name that it was done, or why not; the exit code."""
    failed = 0
    for name, future in futures.items():
        try:
            result(future, name)
        except KafkaFailed as error:
            failed = 1
            print(f"bridge: {error}", file=sys.stderr)
        else:
            print(f"{name} {done}")
    return failed


def _advertised(config: Path | None) -> str:
    first = load(config).listeners[0]
    address = first.advertised or first.listen
    return str(address._replace(host="127.0.0.1") if is_every_interface(str(address)) else address)


def _login(options: argparse.Namespace) -> dict[str, Any]:
    tls = options.tls or options.tls_ca or options.tls_certificate
    found: dict[str, Any] = {"security.protocol": ("SASL_" if options.user else "") + ("SSL" if tls else "PLAINTEXT")}
    for name in ("ca", "certificate", "key"):
        file = getattr(options, f"tls_{name}")
        if file is not None:
            if not file.is_file():
                raise SettingsError(f"there is no file {file}")
            found[f"ssl.{name}.location"] = str(file)
    if options.user:
        found |= {"sasl.mechanism": options.mechanism, "sasl.username": options.user}
        found["sasl.password"] = _password(options.password_file)
    return found


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except OSError as error:
            raise SettingsError(f"{file}: {error.strerror}") from None
    given = os.environ.get(PASSWORD)
    if given is None and not sys.stdin.isatty():
        raise SettingsError(f"a user needs a password: --password-file FILE, or {PASSWORD}")
    return getpass("Password: ") if given is None else given
