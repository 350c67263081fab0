"""Three nodes, 2,000 topics and 50 groups: the page searches and sorts them, and costs next to nothing; its pictures.

`pytest -s -m soak tests/http/status` prints the figures and writes the pictures of docs/pictures, in half an hour.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page, Response, ViewportSize, expect

from bridge.node.orphans import Guard
from bridge.standalone.ports import HOST
from tests.faults.processes import cpu_seconds, let_pass
from tests.support import browser as browsers
from tests.support.bridges import BridgeChild, settings_for
from tests.support.browser import Watched
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PICTURES = ROOT / "docs" / "pictures"
MOST_PICTURE_BYTES = MOST_PAGE_BYTES = 150_000
TOKEN = "s3cret"  # noqa: S105
TOPICS, BUSY, GROUPS = 2000, 20, 50
PAIRS, WINDOW_SECONDS = 9, 60.0
MOST_SHARE = 0.005
LOOKED_AT = ("overview", "topics?sort=-rate", "groups")
REGIONS = ("eu-west", "eu-north", "us-east", "us-west", "asia-south")
KINDS = ("orders", "payments", "returns", "stock", "visits", "prices", "mails", "audit")


def topic_names() -> list[str]:
    return [f"{KINDS[n % 8]}.{REGIONS[n % 5]}.{n:04}" for n in range(TOPICS)]


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BridgeChild]]:
    """Three nodes of one cluster that ask each other."""
    namespace, directory = pulsar.create_namespace(), tmp_path_factory.mktemp("nodes")
    made: list[BridgeChild] = []
    try:
        for number in range(3):
            cluster = {"name": f"bridge-{number}", "internal_listen": f"{HOST}:0"}
            http = {"show_records": True, "token": TOKEN}
            settings = settings_for(pulsar, namespace, {"cluster": cluster, "http": http})
            made.append(BridgeChild(settings, directory / str(number), guard))
            made[-1].start()
        create(made[0].kafka)
        yield made
    finally:
        for node in made:
            node.kill()


def create(bootstrap: str) -> None:
    """All topics; the busy ones have four partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = topic_names()
    for at in range(0, TOPICS, 100):
        new = [NewTopic(name, 4 if number < BUSY else 1) for number, name in enumerate(names[at : at + 100], at)]
        for future in admin.create_topics(new, request_timeout=120, operation_timeout=120).values():
            future.result()


class Load:
    """A producer to the busy topics until `quiet` is set, and fifty groups that stay until the end."""

    def __init__(self, bootstrap: str) -> None:
        self.quiet = threading.Event()
        self._over = threading.Event()
        self._bootstrap = bootstrap
        self._names = topic_names()[:BUSY]
        self._threads = [threading.Thread(target=self._produce)]
        members = [(group, member) for group in range(GROUPS) for member in range(1 + group % 2)]
        self._threads += [threading.Thread(target=self._consume, args=one) for one in members]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 50, "client.id": "load"})
        sent = 0
        while not self._over.wait(0.02):
            if not self.quiet.is_set():
                for _ in range(1 + sent % 7):
                    value = {"number": sent, "region": REGIONS[sent % 5], "items": [{"article": sent % 97, "count": 2}]}
                    producer.produce(
                        self._names[(sent * sent + sent // 9) % BUSY], json.dumps(value), f"customer {sent % 50}",
                        headers=[("trace", sent.to_bytes(4, "big")), ("sent by", b"shop")],
                    )  # fmt: skip
                    sent += 1
            producer.poll(0)
        producer.flush(10)

    def _consume(self, group: int, member: int) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap, "group.id": f"{KINDS[group % 8]}-service-{group:02}",
            "client.id": f"worker-{member}", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 1000,
        })  # fmt: skip
        consumer.subscribe([self._names[group % BUSY], self._names[(group + 7) % BUSY]])
        while not self._over.is_set():
            consumer.poll(0.2)
            if group % 5 == 0:  # these are slow, so they fall behind
                self._over.wait(0.3)
        consumer.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.started() as browser:
        yield browser


@pytest.fixture(scope="module")
def load(nodes: list[BridgeChild]) -> Iterator[Load]:
    with Load(",".join(node.kafka for node in nodes)) as load:
        let_pass(30.0)
        yield load


def test_it_is_searched_and_sorted_and_its_pictures_are_small(
    nodes: list[BridgeChild], load: Load, browser: Browser
) -> None:
    search(browser, nodes[0].http)
    photograph(browser, nodes[0].http)


def test_to_look_at_it_all_the_time_costs_next_to_nothing(
    nodes: list[BridgeChild], load: Load, browser: Browser
) -> None:
    load.quiet.set()
    measure(browser, nodes)


def page_of(browser: Browser, **more: Any) -> Page:
    return browser.new_page(http_credentials={"username": "me", "password": TOKEN}, **more)


def search(browser: Browser, url: str) -> None:
    """Of 2,000 topics."""
    with page_of(browser) as page:
        watched = Watched(page)
        answers: list[Response] = []
        page.on("response", lambda response: answers.append(response))
        page.goto(f"{url}/#/topics?sort=-rate")
        expect(page.locator(".tools p")).to_have_text("2,000 topics")
        expect(page.locator("tbody tr")).to_have_count(50)
        loaded = {one.url: len(one.body()) for one in answers if one.ok}  # an answer more a second has the same rows
        print(f"\nthe page with its first rows: {sum(loaded.values())} bytes in {len(loaded)} answers")
        assert sum(loaded.values()) <= MOST_PAGE_BYTES
        page.get_by_role("button", name="Next page").click()
        expect(page.locator("nav#pages span")).to_have_text("Page 2 of 40")
        page.get_by_label("Search").fill("us-west 1")
        expect(page.locator(".tools p")).to_have_text(re.compile(r"^\d+ of 2,000 topics$"))
        assert not watched.findings()
        assert not watched.wrong
        took = page.evaluate(
            """async () => { const times = [];
            for (const query of ["search=eu", "search=orders&sort=-rate", "sort=-records&page=40", "search=zz"]) {
              const at = performance.now(); await (await fetch(`api/state?view=topics&${query}`)).json();
              times.push(performance.now() - at); } return times; }"""
        )
        print(f"searches of {TOPICS} topics, ms: {[round(one, 1) for one in took]}")


def photograph(browser: Browser, url: str) -> None:
    """The pictures of docs/pictures."""
    PICTURES.mkdir(exist_ok=True)
    wide, narrow = ViewportSize(width=1180, height=760), ViewportSize(width=360, height=740)
    with page_of(browser, viewport=wide, color_scheme="light") as page:
        page.goto(f"{url}/#/overview")
        let_pass(90.0)  # for the charts
        taken(page, "overview-light")
        show_topics(page, url)
        taken(page, "topics")
        for view in ("groups", "nodes", "brokers", "clients"):
            page.goto(f"{url}/#/{view}")
            expect(page.locator("tbody tr").first).to_be_visible()
            let_pass(5.0)
            taken(page, view)
        page.goto(f"{url}/#/groups?item={page.evaluate(GROUP_WITH_LAG)}")
        expect(page.locator(".history svg")).to_be_visible(timeout=120_000)  # two samples, of half a minute each
        taken(page, "group")
        page.goto(f"{url}/#/topics?item={topic_names()[0]}")
        expect(page.get_by_role("region", name="Configs").locator("tbody tr").first).to_be_visible(timeout=30_000)
        taken(page, "topic")
        page.goto(f"{url}/#/records?item={topic_names()[0]}&partition=0")
        expect(page.locator(".records article").first).to_be_visible(timeout=30_000)
        taken(page, "records")
    with page_of(browser, viewport=wide, color_scheme="dark") as page:
        page.goto(f"{url}/#/overview")
        let_pass(60.0)
        taken(page, "overview-dark")
    with page_of(browser, viewport=narrow, color_scheme="dark") as page:
        show_topics(page, url)
        taken(page, "topics-phone")


def show_topics(page: Page, url: str) -> None:
    """Those that grow fastest: a rate needs two looks, on a full machine half a minute after each other."""
    page.goto(f"{url}/#/topics?sort=-rate")
    expect(page.locator("tbody tr").first.locator("[data-label='Records a second']")).to_contain_text(
        "/s", timeout=120_000
    )


GROUP_WITH_LAG = """async () =>
    (await (await fetch("api/state?view=groups&sort=-lag")).json()).answer.table.rows[0].name"""


def taken(page: Page, name: str) -> None:
    path: Path = PICTURES / f"status-{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size <= MOST_PICTURE_BYTES


def measure(browser: Browser, nodes: list[BridgeChild]) -> None:
    """The processor time of each node with the page of the first one open and without, in turns."""
    without, with_page = [], []
    for number in range(PAIRS):
        without.append(shares(nodes))
        with page_of(browser) as page:
            page.goto(f"{nodes[0].http}/#/{LOOKED_AT[number % len(LOOKED_AT)]}")
            expect(page.locator("#health")).to_have_text("Ready")
            with_page.append(shares(nodes))
    for number in range(len(nodes)):
        opened, closed = [one[number] for one in with_page], [one[number] for one in without]
        costs = [f"{100 * (one - other):.2f}" for one, other in zip(opened, closed, strict=True)]
        shown = (
            f"with the page {100 * mean(opened):.2f} %, without {100 * mean(closed):.2f} % of a core; pairs: {costs}"
        )
        print(f"node {number}: {shown}")
        assert mean(opened) - mean(closed) <= MOST_SHARE


def shares(nodes: list[BridgeChild], seconds: float = WINDOW_SECONDS) -> list[float]:
    """Of a core that each node takes, in one window."""
    before = [cpu_seconds(node.pid) for node in nodes]
    let_pass(seconds)
    return [(cpu_seconds(node.pid) - one) / seconds for node, one in zip(nodes, before, strict=True)]
