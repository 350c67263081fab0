"""Records in a real browser: whatever their keys, values and headers say is text, and nothing of it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pulsar as native
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.http.status.hostile import HOSTILE
from tests.support import browser as browsers
from tests.support.bridges import BridgeThread, Overrides, settings_for
from tests.support.browser import Watched
from tests.support.pulsar import PulsarAddress

TOKEN = "s3cret"  # noqa: S105
VALUES = (*HOSTILE, *(json.dumps({"name": one}) for one in HOSTILE))


@pytest.fixture(scope="module")
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    overrides: Overrides = {"http": {"show_records": True, "token": TOKEN}, "kafka": {"default_partitions": 1}}
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), overrides))
    running.start()
    producer = Producer({"bootstrap.servers": running.kafka})
    for value in VALUES:
        producer.produce("orders", value.encode(), value.encode(), headers=[(value, value.encode())])
    assert producer.flush(30) == 0
    client = native.Client(running.pulsar)  # what time it is only Kafka's clients are asked about
    writer = client.create_producer(f"persistent://{running.namespace}/orders-partition-0")
    writer.send(bytes(range(256)), event_timestamp=2**62)
    client.close()
    yield running
    running.stop()


@pytest.fixture
def watched(bridge: BridgeThread) -> Iterator[Watched]:
    """The page of the topic; nothing may go wrong in it."""
    with browsers.started() as browser:
        context = browser.new_context(http_credentials={"username": "me", "password": TOKEN})
        made = Watched(context.new_page())
        made.page.goto(f"{bridge.http}/#/topics?item=orders")
        yield made
        context.close()
        assert not made.wrong


def records(page: Page) -> int:
    return page.locator(".records article").count()


def test_hostile_records_are_text_and_nothing_else(watched: Watched) -> None:
    page = watched.page
    page.evaluate("addEventListener('securitypolicyviolation', () => { window.violated = true; })")
    page.get_by_role("link", name="Look").click()
    expect(page.locator(".records article")).to_have_count(len(VALUES) + 1)
    shown = page.locator(".records").inner_text()
    for value in HOSTILE:
        assert value in shown
    assert "00 01 02" in shown
    assert "s after 1970" in shown  # a timestamp that is no time hides nothing
    assert page.locator(".records img, .records script, .records iframe, .records b, .records a").count() == 0
    assert page.evaluate("[window.attacked, window.violated]") == [None, None]
    assert not watched.findings()


def test_they_are_read_when_asked_for_and_not_at_each_second(watched: Watched) -> None:
    page = watched.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "view=records" in request.url else None)
    page.get_by_role("link", name="Look").click()
    expect(page.locator(".records article")).not_to_have_count(0)
    for _ in range(2):
        with page.expect_response("**/api/state?view=overview*"):
            pass
    assert len(asked) == 1
    page.get_by_label("Key (text, or 0x and its bytes)").fill(HOSTILE[1])
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".records article")).to_have_count(1)
    page.get_by_label("Key (text, or 0x and its bytes)").fill("")
    page.get_by_label("Begin with").select_option("offset")
    page.get_by_label("Offset", exact=True).fill("9")
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".records article")).to_have_count(len(VALUES) + 1 - 9)
    assert page.evaluate("window.attacked") is None
