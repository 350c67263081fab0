"""Nothing tells an unknown user from a wrong password, over TLS: neither any byte of the answers nor their times."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Iterator
from statistics import median
from typing import Any
from uuid import uuid4

import pytest

from bridge.access.password_file import line_of
from bridge.apis import sasl_authenticate, sasl_handshake
from bridge.kafka.error_codes import ErrorCode
from bridge.standalone.ports import HOST
from tests.apis.wire import Connection
from tests.security.users import Written, credential
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.pulsar import PulsarAddress
from tests.support.two_samples import Comparison, p99

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD, WRONG = "user0000", "wonder land", "yonder land"
TIMES = 200
UNLIKELY = 0.0005
"""Of five comparisons, one is below this by chance in 400 runs."""


class Guesser:
    """A stranger who logs in to a bridge that does not delay failures, and measures each answer."""

    def __init__(self, address: str, authority: str) -> None:
        self._address = address
        self._tls = ssl.create_default_context(cafile=authority)

    def log_in(self, mechanism: str, name: str, password: str) -> tuple[list[Any], list[float]]:
        """The answers, and what each took in seconds."""
        answers: list[Any] = []
        seconds: list[float] = []
        with Connection(self._address, tls=self._tls) as connection:
            connection.ask(sasl_handshake.API, sasl_handshake.Request(mechanism=mechanism), 1)
            for data in self._messages(mechanism, name, password, answers):
                begun = time.perf_counter()
                answers.append(connection.ask(sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=data), 2))
                seconds.append(time.perf_counter() - begun)
        return answers, seconds

    def _messages(self, mechanism: str, name: str, password: str, answers: list[Any]) -> Iterator[bytes]:
        if mechanism == "PLAIN":
            yield f"\0{name}\0{password}".encode()
            return
        client = Written(mechanism, name, password)
        yield client.first()
        yield client.final(bytes(answers[-1].auth_bytes))


@pytest.fixture(scope="module")
def guesser(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guesser]:
    directory = tmp_path_factory.mktemp("times")
    authority = Authority(directory)
    signed = authority.sign("server")
    users = directory / "users"
    known = [line_of(USER, credential(name, PASSWORD, salt=uuid4().hex[:25].encode())) for name in MECHANISMS[1:]]
    users.write_text("".join(f"{line}\n" for line in known))
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    running = BridgeThread(
        base.with_values(
            kafka={
                "listeners": f"SASL_SSL://{HOST}:0",
                "sasl_enabled_mechanisms": ",".join(MECHANISMS),
                "connection_failed_authentication_delay_ms": 0,
                "max_failed_logins_per_ip_per_second": 0,
            },
            listener={"SASL_SSL": {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
            security={"password_file": str(users)},
        )
    )
    running.start()
    yield Guesser(f"{HOST}:{running.server.listeners.ports['SASL_SSL']}", authority.file)
    running.stop()


def stranger() -> str:
    """A name that is not there, as long as one that is."""
    return uuid4().hex[: len(USER)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_answers_are_the_same_but_for_salt_and_nonce(guesser: Guesser, mechanism: str) -> None:
    wrong, _ = guesser.log_in(mechanism, USER, WRONG)
    unknown, _ = guesser.log_in(mechanism, stranger(), WRONG)
    assert wrong[-1] == unknown[-1]
    assert wrong[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert [shape(one) for one in wrong] == [shape(one) for one in unknown]


def shape(answer: Any) -> list[Any]:
    """The fields, with the lengths of nonce and salt in place of these; iterations stay."""
    parts = bytes(answer.auth_bytes).decode().split(",")
    return [
        answer.error_code,
        answer.error_message,
        *(one if one[:2] == "i=" else (one[:2], len(one)) for one in parts),
    ]


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_neither_do_their_times_tell(guesser: Guesser, mechanism: str) -> None:
    """200 of each in random order; `pytest -s` shows the figures."""
    guesser.log_in(mechanism, USER, PASSWORD)  # what is known of a right password shortens nothing
    names = [USER] * TIMES + [stranger() for _ in range(TIMES)]
    random.shuffle(names)
    taken: dict[bool, list[list[float]]] = {True: [], False: []}
    for name in names:
        _, seconds = guesser.log_in(mechanism, name, WRONG)
        taken[name == USER].append(seconds)
    for step, (known, unknown) in enumerate(
        zip(*(zip(*taken[which], strict=True) for which in (True, False)), strict=True), 1
    ):
        compared = Comparison(known, unknown)
        least, shift, most = (one * 1e6 for one in compared.shift)
        shown = [f"{median(one) * 1e3:.3f} ms, p99 {p99(one) * 1e3:.3f} ms" for one in (known, unknown)]
        print(
            f"\n{mechanism}, answer {step}: wrong password {shown[0]}; unknown user {shown[1]}; "
            f"shift {shift:+.0f} µs (99 %: {least:+.0f} to {most:+.0f}); p = {compared.p:.3f}"
        )
        assert compared.p > UNLIKELY
