"""A connection waits for its client's quotas: it is told how long, is not read, and no other one waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bridge.apis import create_topics, fetch, metadata, produce
from bridge.connection.parts import is_gone
from bridge.connection.responses import InFlightRequest
from bridge.connection.throttling import Throttle
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Response, ResponsePartition, ResponseTopic
from bridge.requests.encoded import EncodedBody
from bridge.requests.session import Session
from bridge.runtime.scheduler import LoopShare
from bridge.security.principal import user
from bridge.security.quotas.entities import CLIENT_ID, USER, QuotaKey, checked_entity
from bridge.security.quotas.usage import ClientQuotas
from bridge.telemetry.metrics import QuotaMetrics
from tests.connection.harness import ECHO, LATER, Bench, connected, request, serving

ALL = checked_entity([(CLIENT_ID, None)])
ALICE = checked_entity([(USER, "alice")])
PRODUCE = produce.API.key


def limited(bench: Bench, key: QuotaKey, value: float) -> ClientQuotas:
    """All clients of the bench have this quota; what asks for an echo is a Produce to it."""
    apis: Any = bench.listener.broker.apis
    apis[PRODUCE] = replace(apis[ECHO], key=PRODUCE)
    quotas = bench.listener.shared.quotas
    quotas.set_values({(ALL, key): value})
    return quotas


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - turns of the loop are what is waited for
            await asyncio.sleep(0)


async def test_what_is_over_the_quota_is_done_and_told_and_nothing_more_is_read() -> None:
    async with serving() as bench, connected(bench) as client:
        quotas = limited(bench, QuotaKey.PRODUCE, 10.0)
        client.send(request(PRODUCE, 1, bytes(100_000)))
        first = await client.receive()
        assert first.number == 1
        assert 0 < first.throttle_time_ms <= 10_005_000
        assert bench.metrics.quotas.throttled_connections.value == bench.metrics.paused_connections.value == 1
        client.send(request(ECHO, 2))
        async with connected(bench) as other:
            other.send(request(ECHO, 3))
            assert (await other.receive()).throttle_time_ms == 0
        assert bench.requests == [1, 3]
        quotas.set_values({})
        assert (await client.receive()).number == 2
        assert bench.metrics.quotas.throttled_connections.value == bench.metrics.paused_connections.value == 0
        assert bench.metrics.quotas.throttled["produce"].value == 1


async def test_a_wait_that_is_over_ends_by_itself() -> None:
    async with serving() as bench, connected(bench) as client:
        limited(bench, QuotaKey.PRODUCE, 1e6)
        client.send(request(PRODUCE, 1, bytes(600_000)))  # 0.1 s over what it begins with
        assert (await client.receive()).throttle_time_ms > 0
        client.send(request(ECHO, 2))
        assert (await client.receive()).number == 2


async def test_other_quotas_count_for_those_who_wait() -> None:
    async with serving() as bench, connected(bench) as client:
        quotas = limited(bench, QuotaKey.PRODUCE, 10.0)
        client.send(request(PRODUCE, 1, bytes(100_000)))
        await client.receive()
        quotas.set_values({(ALL, QuotaKey.PRODUCE): 1e9})
        client.send(request(ECHO, 2))
        assert (await client.receive()).number == 2


async def test_what_was_received_is_done_and_a_request_that_is_begun_is_received() -> None:
    async with serving() as bench, connected(bench) as client:
        quotas = limited(bench, QuotaKey.PRODUCE, 10.0)
        whole, begun = request(PRODUCE, 2), request(PRODUCE, 3, bytes(200_000))
        client.send(request(PRODUCE, 1, bytes(10_000)), whole, begun[:1000])
        assert [(await client.receive()).number for _ in range(2)] == [1, 2]
        client.send(begun[1000:], request(ECHO, 4))
        assert (await client.receive()).number == 3
        assert bench.requests == [1, 2, 3]
        quotas.set_values({})
        assert (await client.receive()).number == 4


async def test_the_answer_of_a_request_that_waits_tells_what_is_left() -> None:
    async with serving() as bench, connected(bench) as client:
        quotas = limited(bench, QuotaKey.PRODUCE, 10.0)
        client.send(request(LATER, 1), request(PRODUCE, 2, bytes(10_000)))
        await bench.begun(2)
        assert bench.metrics.quotas.throttled_connections.value == 1
        bench.answer(1)
        assert [(await client.receive()).throttle_time_ms > 0 for _ in range(2)] == [True, True]
        quotas.set_values({})


async def test_the_end_of_the_process_is_not_waited_for() -> None:
    async with serving() as bench, connected(bench) as client:
        limited(bench, QuotaKey.PRODUCE, 10.0)
        client.send(request(PRODUCE, 1, bytes(10_000)))
        await client.receive()
        draining = asyncio.create_task(bench.listener.drain(10))
        client.send(request(PRODUCE, 2, bytes(10_000)))
        assert (await client.receive()).number == 2
        await client.closed()
        await draining
        assert bench.metrics.quotas.throttled_connections.value == 0


async def test_a_client_that_is_gone_leaves_nothing_behind() -> None:
    async with serving() as bench:
        limited(bench, QuotaKey.PRODUCE, 10.0)
        async with connected(bench) as client:
            client.send(request(PRODUCE, 1, bytes(10_000)))
            await client.receive()
            (connection,) = bench.listener._open
            connection.sweep(asyncio.get_running_loop().time(), 600, 30)
            assert connection in bench.listener._open
            client.reset()
            await until(lambda: is_gone(connection._transport))
            connection.sweep(asyncio.get_running_loop().time(), 600, 30)
            await until(lambda: not bench.metrics.connections.value)
        assert bench.metrics.quotas.throttled_connections.value == 0
        assert not bench.listener.throttled


async def test_one_who_waits_is_not_taken_for_silent() -> None:
    async with serving() as bench, connected(bench) as client:
        quotas = limited(bench, QuotaKey.PRODUCE, 10.0)
        client.send(request(PRODUCE, 1, bytes(10_000)))
        await client.receive()
        (connection,) = bench.listener._open
        connection.sweep(asyncio.get_running_loop().time() + 1000, 600, 30)
        quotas.set_values({})
        client.send(request(ECHO, 2))
        assert (await client.receive()).number == 2


async def test_handling_time_counts_for_every_api() -> None:
    async with serving() as bench, connected(bench) as client:
        limited(bench, QuotaKey.REQUEST, 0.0001)
        client.send(request(ECHO, 1))
        assert 0 < (await client.receive()).throttle_time_ms <= 1000
        assert bench.metrics.quotas.throttled["request"].value == 1


# ---- by itself -------------------------------------------------------------------------------------------------------


class Site:
    """A throttle, and the requests of its connection."""

    def __init__(self, **values: float) -> None:
        self.quotas = ClientQuotas(QuotaMetrics())
        self.quotas.set_values({(ALICE, QuotaKey(key)): value for key, value in values.items()})
        self.session = Session(1, "10.0.0.1:1", "", principal=user("alice"))
        self.share = LoopShare()
        self.throttle = Throttle(self.quotas, set(), self.session, self.share, lambda: None)

    def request(self, api: Any = fetch.API) -> InFlightRequest:
        made = InFlightRequest(memoryview(bytes(100)), 0.0)
        made.api, made.version = api, api.max_version
        return made


def found(*sizes: int) -> Response:
    records = [bytes(size) for size in sizes]
    partition = ResponsePartition(partition_index=0, error_code=0, high_watermark=9, records=records)
    return Response(responses=[ResponseTopic(topic="t", partitions=[partition])])


async def test_a_fetch_is_capped_and_what_it_finds_counts() -> None:
    site = Site(consumer_byte_rate=1000.0)
    assert site.throttle.begin(site.request()) is None
    assert site.session.fetch_bytes == 500
    answer = site.throttle.answered(site.request(), found(400, 1100))
    assert len(answer.responses) == 1 and 0 < answer.throttle_time_ms <= 1000
    assert site.throttle.muted
    refused = site.throttle.begin(site.request())
    assert refused is not None and refused.responses == []
    assert 0 < site.throttle.answered(site.request(), refused).throttle_time_ms <= 1000
    site.throttle.stop()


async def test_a_fetch_finds_nothing_where_others_have_used_the_quota_up_meanwhile() -> None:
    site = Site(consumer_byte_rate=1000.0)
    assert site.throttle.begin(site.request()) is None
    site.quotas.take_bytes(QuotaKey.FETCH, "alice", "other", 10_000, asyncio.get_running_loop().time())
    answer = site.throttle.answered(site.request(), found(400))
    assert answer.responses == [] and answer.throttle_time_ms > 8000
    site.throttle.stop()


async def test_an_empty_fetch_costs_nothing() -> None:
    site = Site(consumer_byte_rate=1.0)
    answer = found()
    assert site.throttle.answered(site.request(), answer) is answer and answer.throttle_time_ms == 0


async def test_an_answer_that_is_shared_is_told_to_one_client_alone() -> None:
    site = Site(consumer_byte_rate=10.0)
    shared = EncodedBody([bytes(4), b"rest" * 100])
    answer = site.throttle.answered(site.request(), shared)
    (told,) = answer.body
    assert int.from_bytes(told[:4], "big") > 0 and told[4:] == b"rest" * 100
    assert shared.body[0][:4] == bytes(4)
    site.throttle.stop()


async def test_time_in_threads_counts_and_a_wait_is_at_most_a_second() -> None:
    site = Site(request_percentage=50.0)
    site.share.spent += 60.0
    answer = site.throttle.answered(site.request(metadata.API), metadata.Response(brokers=[], topics=[]))
    assert 900 < answer.throttle_time_ms <= 1000
    site.throttle.stop()


async def test_new_versions_are_refused_topics_and_told_when_to_come_again() -> None:
    site = Site(controller_mutation_rate=1.0)
    site.session.mutations = site.throttle
    site.session.api_version = create_topics.THROTTLED
    site.session.count_mutations(11 + 60, strict_from=create_topics.THROTTLED)
    answer = site.throttle.answered(site.request(create_topics.API), create_topics.Response(topics=[]))
    assert answer.throttle_time_ms == 0  # what was done in time
    with pytest.raises(KafkaError) as refused:
        site.session.count_mutations(1, strict_from=create_topics.THROTTLED)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    answer = site.throttle.answered(site.request(create_topics.API), create_topics.Response(topics=[]))
    assert 59_000 < answer.throttle_time_ms <= 60_000
    site.throttle.stop()


async def test_old_versions_get_their_topics_and_wait() -> None:
    site = Site(controller_mutation_rate=1.0)
    site.session.mutations = site.throttle
    site.session.api_version = create_topics.THROTTLED - 1
    for _ in range(2):
        site.session.count_mutations(36, strict_from=create_topics.THROTTLED)
    answer = site.throttle.answered(site.request(create_topics.API), create_topics.Response(topics=[]))
    assert 60_000 < answer.throttle_time_ms <= 61_000
    site.throttle.stop()


async def test_waits_that_no_client_can_be_told_are_bounded() -> None:
    site = Site(producer_byte_rate=1.0)
    huge = site.request(produce.API)
    huge.size = 2**31 - 5
    site.throttle.begin(huge)
    answer = site.throttle.answered(site.request(metadata.API), metadata.Response(brokers=[], topics=[]))
    assert answer.throttle_time_ms == 2**31 - 1
    site.throttle.stop()
