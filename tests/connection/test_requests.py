"""How a request is read: a large one beside the event loop, few at a time; one that waits lets go of its bytes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.apis import delete_groups
from bridge.connection.requests import (
    LARGE_BYTES,
    MAX_CONCURRENT,
    NOT_YET,
    LargeRequestThreads,
    perform,
    start,
)
from bridge.connection.responses import InFlightRequest
from bridge.errors import KafkaError, Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int32, message
from bridge.kafka.primitives import MAX_ELEMENTS
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.runtime.threads import WorkerThreads
from tests.connection.harness import Response

SMALL, LARGE = bytes(100), bytes(LARGE_BYTES + 1)


@message
class Numbers:
    """As many as there are."""

    numbers: list[Int32]


class Site:
    """An API that notes in which thread it is read and handled."""

    def __init__(self, handle: Callable[[], Awaitable[Any]] | None = None, key: int = 1, **changes: Any) -> None:
        self.read_in: list[int] = []
        self.handled_in: list[int] = []
        self.given_back: list[int] = []
        self.running = self.most = 0
        self._handle = handle
        values: dict[str, Any] = {"request": Numbers, "read": self._read} | changes
        self.api = Api(
            key=key, name="Test", min_version=0, max_version=0, flexible=None, handle=self._run, response=Response,
            rights=NOTHING, **values,
        )  # fmt: skip

    def _read(self, body: memoryview, version: int) -> memoryview:
        self.read_in.append(threading.get_ident())
        return body

    async def _run(self, request: Any, broker: Broker, session: Session) -> str:
        self.handled_in.append(threading.get_ident())
        self.running += 1
        self.most = max(self.most, self.running)
        if self._handle is not None:
            await self._handle()
        self.running -= 1
        return "done"

    def started(self, body: bytes) -> InFlightRequest:
        started = InFlightRequest(memoryview(body), 0.0)
        started.api = self.api
        return started

    async def ask(self, body: bytes, large_requests: LargeRequestThreads | None = None) -> Any:
        return await self.perform(self.started(body), large_requests)

    async def perform(self, request: InFlightRequest, large_requests: LargeRequestThreads | None = None) -> Any:
        return await perform(request, BROKER, SESSION, large_requests or LargeRequestThreads(), self.given_back.append)


async def running(site: Site, count: int) -> None:
    async with asyncio.timeout(10):
        while site.running < count:  # noqa: ASYNC110 - turns of the loop are what is waited for
            await asyncio.sleep(0)


@pytest.mark.parametrize("size", [1, len(LARGE)])
async def test_an_error_of_the_whole_request_is_told_in_each_part_where_that_is_the_only_place(size: int) -> None:
    """Also of a large request, in a thread."""

    async def fail(request: Any, broker: Broker, session: Session) -> Any:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)

    started = InFlightRequest(memoryview(b""), 0.0)
    started.api, started.size = replace(delete_groups.API, handle=fail), size
    groups = delete_groups.Request(groups_names=["a", "b"])
    started.body = memoryview(b"".join(delete_groups.API.encode(groups, 0)))
    answer = await perform(started, BROKER, SESSION, LargeRequestThreads(), lambda count: None)
    assert [(one.group_id, one.error_code) for one in answer.results] == [("a", 5), ("b", 5)]


async def test_a_request_that_failed_as_a_whole_has_changed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Also where who decides about rights has not answered in time."""

    async def fail(request: Any, broker: Broker, session: Session) -> Any:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    caplog.set_level("INFO", "bridge.audit")
    started = InFlightRequest(memoryview(b""), 0.0)
    started.api = replace(delete_groups.API, handle=fail)
    started.body = memoryview(b"".join(delete_groups.API.encode(delete_groups.Request(groups_names=["a"]), 0)))
    answer = await perform(started, BROKER, SESSION, LargeRequestThreads(), lambda count: None)
    assert [one.error_code for one in answer.results] == [ErrorCode.REQUEST_TIMED_OUT]
    assert not caplog.records


async def test_an_error_that_clients_take_for_final_is_not_told() -> None:
    async def fail() -> None:
        raise Unanswered(ErrorCode.NOT_COORDINATOR)

    with pytest.raises(Unanswered):
        await Site(fail).ask(SMALL)


CPU_THREAD = WorkerThreads(1)
BROKER = cast(Broker, SimpleNamespace(cpu_thread=CPU_THREAD, authorization=None))
SESSION = Session(id=1, peer="", listener="")
HERE = threading.get_ident


async def test_a_small_request_is_read_at_once() -> None:
    site = Site()
    assert await site.ask(SMALL) == "done"
    assert site.read_in == site.handled_in == [HERE()]


async def test_a_large_one_is_read_in_a_thread_and_handled_here() -> None:
    site = Site()
    assert await site.ask(LARGE) == "done"
    assert site.read_in != [HERE()]
    assert site.handled_in == [HERE()]


async def test_records_are_no_reason_for_a_thread() -> None:
    site = Site(max_request_bytes=2**31 - 1)
    await site.ask(LARGE)
    assert site.read_in == [HERE()]


async def test_what_asks_nothing_is_done_in_the_thread_as_a_whole() -> None:
    site = Site(pure=True)
    assert await site.ask(LARGE) == "done"
    assert site.handled_in == site.read_in != [HERE()]


async def test_who_waits_all_the_same_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="not pure"):
        await Site(lambda: asyncio.sleep(0), pure=True).ask(LARGE)


async def test_a_few_large_ones_of_an_api_are_under_way_and_keep_up_no_other() -> None:
    release = asyncio.Event()
    site, other, large_requests = Site(release.wait, key=1), Site(key=2), LargeRequestThreads(place_seconds=1000)
    asking = [asyncio.ensure_future(site.ask(LARGE, large_requests)) for _ in range(3 * MAX_CONCURRENT)]
    await running(site, MAX_CONCURRENT)
    assert await other.ask(LARGE, large_requests) == "done"
    release.set()
    assert await asyncio.gather(*asking) == ["done"] * 3 * MAX_CONCURRENT
    assert site.most == MAX_CONCURRENT


async def test_large_ones_that_hang_hold_up_no_others_of_their_api() -> None:
    hanging, large_requests = asyncio.Event(), LargeRequestThreads(place_seconds=0.01)
    site, other = Site(hanging.wait), Site()
    stuck = [asyncio.ensure_future(site.ask(LARGE, large_requests)) for _ in range(20)]
    await running(site, 20)
    assert await other.ask(LARGE, large_requests) == "done"
    hanging.set()
    assert await asyncio.gather(*stuck) == ["done"] * 20
    assert large_requests._slow_bytes == 0


async def test_only_few_bytes_of_those_that_hang_are_in_memory() -> None:
    hanging, large_requests = asyncio.Event(), LargeRequestThreads(place_seconds=0.001)
    site, body = Site(hanging.wait), bytes(100 * 1024)
    asking = [asyncio.ensure_future(site.ask(body, large_requests)) for _ in range(6)]
    await running(site, 2 + MAX_CONCURRENT)  # 256 KiB of bytes without a place, and those that have one
    hanging.set()
    await asyncio.gather(*asking)
    assert site.most == 2 + MAX_CONCURRENT
    assert await site.ask(body, large_requests) == "done"


@pytest.mark.parametrize("body", [SMALL, LARGE])
async def test_what_waits_for_others_holds_no_bytes_and_no_place(body: bytes) -> None:
    release = asyncio.Event()
    site, large_requests = Site(release.wait, waits=True), LargeRequestThreads()
    asking = [asyncio.ensure_future(site.ask(body, large_requests)) for _ in range(3 * MAX_CONCURRENT)]
    await running(site, 3 * MAX_CONCURRENT)
    assert site.given_back == [len(body)] * 3 * MAX_CONCURRENT
    release.set()
    await asyncio.gather(*asking)


async def test_too_many_elements_are_an_invalid_request() -> None:
    count = MAX_ELEMENTS + 1
    with pytest.raises(KafkaError) as refused:
        await Site(read=None).ask(count.to_bytes(4, "big") + bytes(4 * count))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


async def test_what_begins_at_once_and_waits_for_nothing_is_answered() -> None:
    site = Site(at_once=True)
    assert start(site.started(SMALL), BROKER, SESSION) == "done"


async def test_what_begins_and_has_to_wait_goes_on_where_it_was() -> None:
    site = Site(lambda: asyncio.sleep(0.001), at_once=True)
    started = site.started(SMALL)
    assert start(started, BROKER, SESSION) is NOT_YET
    assert await site.perform(started) == "done"
    assert len(site.read_in) == len(site.handled_in) == 1


@pytest.mark.parametrize("at_once", [False, True])
async def test_large_ones_and_those_that_do_not_begin_at_once_are_left_as_they_are(at_once: bool) -> None:
    site = Site(at_once=at_once)
    started = site.started(LARGE if at_once else SMALL)
    assert start(started, BROKER, SESSION) is NOT_YET
    assert site.read_in == []
    assert await site.perform(started) == "done"
