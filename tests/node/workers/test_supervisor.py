"""A supervisor with real processes for workers, which need no Pulsar."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge.config import Settings
from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.node.workers.http_get import get
from bridge.node.workers.supervisor import Supervisor
from tests.node.workers.stubs import COMMAND, stub_settings
from tests.support.certificates import Authority
from tests.support.foreign import state
from tests.support.freezing import frozen
from tests.support.prometheus import check_metrics
from tests.support.waiting import until

SECONDS = 30.0


@asynccontextmanager
async def supervising(settings: Settings | None = None) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(settings or stub_settings(2), COMMAND)
    async with asyncio.timeout(2 * SECONDS):
        try:
            await supervisor.start()
            yield supervisor
        finally:
            await supervisor.stop()


async def page(supervisor: Supervisor, path: str) -> tuple[int, str]:
    answer = await get(supervisor.http_port, path, SECONDS)
    return answer.status, answer.body.decode()


async def greeting(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


async def ready_again(supervisor: Supervisor, index: int, pid: int | None) -> None:
    worker = supervisor.workers[index]
    await until(lambda: worker.ready is not None and worker.pid != pid, SECONDS)


def process_number(supervisor: Supervisor, index: int) -> int:
    pid = supervisor.workers[index].pid
    assert pid is not None
    return pid


def kill(supervisor: Supervisor, index: int, number: signal.Signals = signal.SIGKILL) -> int:
    pid = process_number(supervisor, index)
    os.kill(pid, number)
    return pid


async def test_each_worker_answers_on_its_own_port_and_one_of_them_on_the_shared_one() -> None:
    async with supervising() as supervisor:
        for worker in supervisor.workers:
            assert worker.ready is not None
            assert await greeting(worker.ready.kafka) == str(worker.index)
        assert await greeting(supervisor.kafka_port) in ("0", "1")


async def test_each_listener_has_a_shared_port_and_one_of_each_worker_which_stay(tmp_path: Path) -> None:
    settings = stub_settings(2).with_values(
        kafka={
            "listen": Settings().kafka.listen, "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        },
    )  # fmt: skip
    async with supervising(settings) as supervisor:
        pid = kill(supervisor, 0)
        before = [worker.ready and worker.ready.ports for worker in supervisor.workers]
        await ready_again(supervisor, 0, pid)
        assert [worker.ready and worker.ready.ports for worker in supervisor.workers] == before
        for name in ("INSIDE", "OUTSIDE"):
            assert await greeting(supervisor.ports[name]) in (f"0 by {name}", f"1 by {name}")
            for worker in supervisor.workers:
                assert worker.ready is not None
                assert await greeting(worker.ready.ports[name]) == f"{worker.index} by {name}"


async def test_a_worker_that_dies_is_started_again_with_its_port() -> None:
    async with supervising() as supervisor:
        before = [worker.ready and worker.ready.kafka for worker in supervisor.workers]
        pid = kill(supervisor, 0)
        await ready_again(supervisor, 0, pid)
        assert [worker.ready and worker.ready.kafka for worker in supervisor.workers] == before
        assert [worker.restarts.count for worker in supervisor.workers] == [1, 0]


async def test_the_shared_port_serves_while_a_worker_hangs_or_is_gone() -> None:
    async with supervising() as supervisor:
        with frozen(process_number(supervisor, 0)):
            assert [await greeting(supervisor.kafka_port) for _ in range(20)] == ["1"] * 20
        kill(supervisor, 0)
        assert {await greeting(supervisor.kafka_port) for _ in range(20)} <= {"0", "1"}


async def test_clients_of_the_shared_port_wait_while_there_is_no_worker() -> None:
    async with supervising() as supervisor:
        kill(supervisor, 0)
        kill(supervisor, 1)
        assert await greeting(supervisor.kafka_port) in ("0", "1")


async def test_a_worker_that_hangs_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.node.workers.worker_process.PROBE_EVERY_SECONDS", 0.05)
    monkeypatch.setattr("bridge.node.workers.worker_process.PROBE_SECONDS", 0.5)
    async with supervising() as supervisor:
        pid = kill(supervisor, 1, signal.SIGSTOP)
        await ready_again(supervisor, 1, pid)
        assert supervisor.workers[1].restarts.count >= 1


@pytest.mark.programs
async def test_metrics_of_all_workers_come_with_their_label() -> None:
    async with supervising() as supervisor:
        status, text = await page(supervisor, "/metrics")
        assert status == 200
        lines = text.splitlines()
        for line in (
            'bridge_kafka_connections{worker="0"} 1.0',
            'bridge_kafka_connections{worker="1"} 2.0',
            'bridge_worker_up{worker="1"} 1.0',
            'bridge_worker_restarts_total{worker="0"} 0.0',
            "# TYPE bridge_kafka_connections gauge",
        ):
            assert lines.count(line) == 1, line
        assert check_metrics(text) == ""


async def test_workers_show_their_metrics_to_the_supervisor_alone() -> None:
    async with supervising() as supervisor:
        for worker in supervisor.workers:
            assert worker.ready is not None
            for path, status in (("/metrics", 401), ("/cluster", 401), ("/healthz", 200)):
                assert (await get(worker.ready.http, path, SECONDS)).status == status


async def test_the_supervisors_port_has_the_token_and_the_certificate_of_the_settings(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("server")
    (tmp_path / "token").write_text("s3cret\n")
    http = {
        "ssl_certificate_file": files.certificate, "ssl_key_file": files.key, "token_file": str(tmp_path / "token"),
        "ssl_key_password_file": str(tmp_path / "token"), "ssl_cipher_suites": "ECDHE-ECDSA-AES128-GCM-SHA256",
    }  # fmt: skip
    context = ssl.create_default_context(cafile=authority.file)
    async with supervising(stub_settings(2).with_values(http=http)) as supervisor, aiohttp.ClientSession() as session:
        url = f"https://localhost:{supervisor.http_port}"
        async with session.get(f"{url}/metrics", ssl=context) as refused:
            assert refused.status == 401
        shown = {"Authorization": "Bearer s3cret"}
        async with session.get(f"{url}/metrics", headers=shown, ssl=context) as answer:
            text = await answer.text()
        for line in (
            'bridge_kafka_connections{worker="1"} 2.0',
            'bridge_http_unauthorized_total{worker="supervisor"} 1.0',
            'bridge_tls_handshakes_total{worker="supervisor",outcome="established"} 2.0',
        ):
            assert text.splitlines().count(line) == 1, line
        assert 'bridge_tls_certificate_expires_seconds{worker="supervisor",listener="http"}' in text
        async with session.get(f"{url}/readyz", ssl=context) as ready:
            assert ready.status == 200


async def test_a_worker_that_does_not_answer_a_scrape_is_left_out_and_counted() -> None:
    async with supervising() as supervisor:
        with frozen(process_number(supervisor, 0)):
            _, text = await page(supervisor, "/metrics")
        assert 'bridge_kafka_connections{worker="0"}' not in text
        assert 'bridge_kafka_connections{worker="1"} 2.0' in text
        assert 'bridge_worker_scrapes_failed_total{worker="0"} 1.0' in text


async def test_ready_says_which_worker_is_not_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_NOT_READY_1", "it is away")
    async with supervising() as supervisor:
        status, text = await page(supervisor, "/readyz")
        assert status == 503
        assert json.loads(text)["checks"] == {"worker 0": "ok", "worker 1": "pulsar: it is away"}
        assert (await page(supervisor, "/healthz"))[0] == 200


async def test_ready_when_all_workers_are_and_the_cluster_is_passed_through() -> None:
    async with supervising() as supervisor:
        assert (await page(supervisor, "/readyz"))[0] == 200
        assert json.loads((await page(supervisor, "/cluster"))[1]) == {"seen by": 0}


async def test_the_status_page_is_of_the_worker_that_is_chosen_and_names_all() -> None:
    async with supervising() as supervisor:
        assert "<title>bridge</title>" in (await page(supervisor, "/"))[1]
        assert (await page(supervisor, "/api/state?view=none"))[0] == 400
        for asked, shown in (("", 0), ("&worker=1", 1)):
            found = json.loads((await page(supervisor, f"/api/state?view=topics&search=a%20b&page=2{asked}"))[1])
            assert (found["worker"], found["answer"]["seen by"]) == (shown, shown)
            query = found["answer"]["query"]
            assert (query["view"], query["search"], query["page"]) == ("topics", "a b", 2)
            assert [(one["index"], one["state"]) for one in found["workers"]] == [(0, "serves"), (1, "serves")]
        assert json.loads((await page(supervisor, "/api/state?worker=7"))[1])["answer"] is None


async def test_a_worker_that_cannot_start_at_first_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_FAILS_1", "")
    with pytest.raises(StartupError, match="worker 1 exited with 3 while starting; its log says why"):
        async with supervising():
            pass


async def test_a_worker_that_cannot_start_later_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervising() as supervisor:
        monkeypatch.setenv("STUB_FAILS_1", "")
        pid = kill(supervisor, 1)
        await until(lambda: supervisor.workers[1].restarts.count >= 2, SECONDS)
        assert "exited with 3; it is started again after" in (await page(supervisor, "/readyz"))[1]
        monkeypatch.delenv("STUB_FAILS_1")
        await ready_again(supervisor, 1, pid)


async def test_a_worker_for_which_there_is_no_process_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Guard.popen

    def fork_once_refused(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        monkeypatch.setattr(Guard, "popen", start)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async with supervising() as supervisor:
        monkeypatch.setattr(Guard, "popen", fork_once_refused)
        await ready_again(supervisor, 1, kill(supervisor, 1))


async def test_stopping_leaves_no_process() -> None:
    async with supervising() as supervisor:
        numbers = [process_number(supervisor, index) for index in (0, 1)]
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


async def test_a_killed_supervisor_leaves_no_process() -> None:
    command = [sys.executable, "-m", "tests.node.workers.supervise_stubs"]
    child = await asyncio.to_thread(partial(subprocess.Popen, command, stdout=subprocess.PIPE))
    assert child.stdout is not None
    with child, child.stdout:
        numbers = [int(number) for number in (await asyncio.to_thread(child.stdout.readline)).split()]
        assert len(numbers) == 2
        child.kill()
    await until(lambda: {state(Path(f"/proc/{number}")) for number in numbers} <= {"", "Z"}, SECONDS)
