"""The status page in a real browser, of a bridge with a real Pulsar, clients, and hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer
from playwright.sync_api import Browser, Error, Page, Request, expect

from bridge.telemetry import log
from tests.http.status.hostile import HOSTILE, MARKUP
from tests.support import browser as browsers
from tests.support.bridges import BridgeThread, settings_for
from tests.support.browser import Watched
from tests.support.pulsar import PulsarAddress

TITLES = {
    "overview": "Overview", "nodes": "Nodes", "brokers": "Brokers", "topics": "Topics", "groups": "Groups",
    "clients": "Clients", "events": "Events", "acls": "ACLs", "users": "Users", "quotas": "Quotas",
    "settings": "Settings",
}  # fmt: skip
VIEWS = tuple(TITLES)
MAYBE_EMPTY = ("clients", "acls", "users", "quotas")
TOKEN = "s3cret"  # noqa: S105


@pytest.fixture(scope="module")
def bridge_shown(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    """One with topics, and groups whose members have hostile names."""
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"http": {"max_connections_per_ip": 64}}))
    running.start()
    consumers: list[KafkaConsumer] = []
    try:
        with KafkaProducer(bootstrap_servers=running.kafka) as producer:
            for topic in ("orders", "payments", "returns"):
                producer.send(topic, b"value").get(30)
        for name in HOSTILE:
            consumer = KafkaConsumer(
                "orders", bootstrap_servers=running.kafka, group_id=name, client_id=f"{name} client",
                auto_offset_reset="earliest", consumer_timeout_ms=30_000,
            )  # fmt: skip
            consumers.append(consumer)
            next(consumer)
            consumer.commit()
            log.get("bridge.tests").warning("! denied", extra={"principal": name, name: 1})
        yield running
    finally:
        for consumer in consumers:
            consumer.close()
        running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.started() as browser:
        yield browser


Open = Callable[..., Watched]


@pytest.fixture
def opened(browser: Browser, bridge_shown: BridgeThread) -> Iterator[Open]:
    """Open a view: `opened("topics", color_scheme="dark")`; nothing may go wrong in it."""
    contexts = []
    pages: list[Watched] = []

    def open_(view: str, at: str = bridge_shown.http, **options: object) -> Watched:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        watched = Watched(context.new_page())
        pages.append(watched)
        watched.page.goto(f"{at}/#/{view}")
        return watched

    yield open_
    for context in contexts:
        context.close()
    assert not [wrong for one in pages for wrong in one.wrong]


def rows(page: Page) -> list[str]:
    return page.locator("tbody th").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.soak)])
def test_every_view_shows_what_there_is_and_axe_finds_nothing(opened: Open, scheme: str) -> None:
    watched = opened("overview", color_scheme=scheme)
    page = watched.page
    expect(page.locator("#health")).to_have_text("Ready")
    for view in VIEWS:
        page.get_by_role("link", name=TITLES[view], exact=True).click()
        expect(page.get_by_role("heading", level=2)).to_have_text(TITLES[view])
        if view not in MAYBE_EMPTY:
            expect(page.locator("tbody tr").first).to_be_visible()
        assert not watched.findings(), view
    page.goto(f"{page.url.partition('#')[0]}#/groups?item=%7B%7B7*7%7D%7D%24%7B7*7%7D")
    expect(page.get_by_role("region", name="Members").locator("tbody tr")).to_have_count(1)
    assert not watched.findings()


def test_hostile_names_are_text_and_nothing_else(opened: Open) -> None:
    page = opened("groups").page
    page.evaluate("addEventListener('securitypolicyviolation', () => { window.violated = true; })")
    for name in HOSTILE:
        link = page.get_by_role("link", name=name.replace("\u202e", ""), exact=False)
        expect(link if "\u202e" not in name else page.get_by_role("link", name=re.compile("gnp"))).to_be_visible()
    for name in HOSTILE:
        page.locator("tbody a").filter(has_text=name).click()
        expect(page.get_by_role("heading", level=2)).to_have_text(f"Groups: {name}")
        members = page.get_by_role("region", name="Members")
        expect(members.get_by_role("cell", name=f"{name} client", exact=True)).to_have_count(1)
        expect(members.get_by_role("cell", name="orders 0", exact=True)).to_have_count(1)
        page.go_back()
    page.goto(f"{page.url.partition('#')[0]}#/events?item=denied")
    expect(page.locator("tbody tr").filter(has_text=MARKUP)).not_to_have_count(0)
    page.goto(
        f"{page.url.partition('#')[0]}#/topics?search={MARKUP.replace(' ', '%20')}&item={MARKUP.replace(' ', '%20')}"
    )
    expect(page.get_by_text("There is no such topic")).to_be_visible()
    assert page.locator("main img, main script, main iframe").count() == 0
    assert page.evaluate("[window.attacked, window.violated]") == [None, None]


def test_what_would_be_injected_all_the_same_does_not_run(opened: Open) -> None:
    watched = opened("overview")
    page = watched.page
    page.evaluate(
        "() => { const one = document.createElement('div'); document.body.append(one);"
        f"one.innerHTML = {MARKUP!r}; const script = document.createElement('script');"
        "script.textContent = 'window.attacked = 1'; document.body.append(script); }"
    )
    # `wait_for_function` evaluates its text in the page again and again, which the policy forbids, too
    page.locator("img").first.evaluate(
        "image => image.complete || new Promise(done => {"
        "for (const name of ['load', 'error']) image.addEventListener(name, () => done(true)); })"
    )
    assert page.evaluate("window.attacked") is None
    assert any("Content Security Policy" in wrong for wrong in watched.wrong)
    watched.wrong.clear()


def test_on_a_phone_nothing_is_cut_off(opened: Open) -> None:
    page = opened("overview", viewport={"width": 360, "height": 740}).page
    for view in VIEWS:
        page.goto(f"{page.url.partition('#')[0]}#/{view}")
        expect(page.get_by_role("heading", level=2)).to_have_text(TITLES[view])
        if view not in MAYBE_EMPTY:
            expect(page.locator("tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, view
        assert page.evaluate("[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)"), (
            view
        )


def test_the_keyboard_reaches_everything_and_focus_stays(opened: Open) -> None:
    page = opened("topics").page
    expect(page.locator("tbody tr")).to_have_count(3)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    for _ in range(3):  # the search, the table's region, the first head
        page.keyboard.press("Tab")
    head = page.get_by_role("columnheader", name="Topic")
    expect(head.get_by_role("button")).to_be_focused()
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody th").first).to_have_text("returns")
    expect(head.get_by_role("button")).to_be_focused()
    link = page.get_by_role("link", name="payments")
    link.focus()
    with page.expect_response(re.compile("api/state")):
        pass
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Topics: payments")).to_be_focused()


def test_an_address_leads_to_the_same_search_order_and_item(opened: Open) -> None:
    page = opened("topics?search=r&sort=-name").page
    expect(page.locator("tbody tr")).to_have_count(2)
    assert rows(page) == ["returns", "orders"]
    page.get_by_label("Search").fill("pay")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"#/topics\?search=pay&sort=-name$"))
    page.get_by_role("link", name="payments").click()
    expect(page).to_have_url(re.compile(r"#/topics\?item=payments$"))
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(1)
    page.go_back()
    expect(page.get_by_label("Search")).to_have_value("pay")


def test_a_lag_that_is_not_known_of_every_partition_says_so(opened: Open) -> None:
    page = opened("groups").page
    says = """async row => {
        const { views } = await import("/page/views.js");
        return ["lag", "behind"].map(key => views.groups.columns.find(one => one.key === key).says(row));
    }"""
    for row, shown in (
        ({"lag": 8000, "unknown": 0, "behind": 3, "at_least": False}, ["8,000", "3 s"]),
        ({"lag": 4000, "unknown": 4, "behind": 3, "at_least": True}, ["≥ 4,000, 4 of 8 partitions unknown", "≥ 3 s"]),
        ({"lag": 0, "unknown": 4, "behind": None, "at_least": True}, ["4 of 8 partitions unknown", "–"]),
        ({"lag": None, "unknown": 8, "behind": None, "at_least": True}, ["8 of 8 partitions unknown", "–"]),
        ({"lag": 0, "unknown": 0, "behind": 0, "at_least": False}, ["0", "0 ms"]),
        ({"lag": None, "unknown": 0, "behind": None, "at_least": False}, ["–", "–"]),
    ):
        assert page.evaluate(says, {**row, "partitions": 8}) == shown


def test_a_lag_over_time_is_a_line_with_its_meaning_in_words(opened: Open) -> None:
    page = opened("groups").page
    drawn = """async points => {
        const { line } = await import("/page/views.js");
        const svg = line(points, 90, 20, "Lag lately");
        return [svg.getAttribute("aria-label"), svg.querySelector("polyline").getAttribute("points").split(" ").length];
    }"""
    assert page.evaluate(drawn, [0, 5, 9]) == ["Lag lately", 3]
    assert page.evaluate(drawn, [0, 0]) == ["Lag lately", 2]


def test_a_topic_leads_to_its_groups(opened: Open) -> None:
    page = opened("topics?item=orders").page
    readers = page.get_by_role("region", name="Groups that read it")
    readers.get_by_role("link", name=MARKUP).click()
    expect(page.get_by_role("heading", level=2)).to_have_text(f"Groups: {MARKUP}")
    assert page.evaluate("window.attacked") is None


def test_the_switch_of_colours_is_remembered(opened: Open) -> None:
    page = opened("overview", color_scheme="light").page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.get_by_label("Colours").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.reload()
    expect(page.get_by_label("Colours")).to_have_value("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


def test_it_asks_once_a_second_and_not_at_all_while_it_is_hidden_or_paused(opened: Open) -> None:
    page = opened("overview").page
    expect(page.locator("#health")).to_have_text("Ready")
    page.clock.install()
    page.reload()
    asked: list[str] = []

    def note(request: Request) -> None:
        if "api/state" in request.url:
            asked.append(request.url)

    page.on("request", note)
    for _ in range(3):
        with page.expect_response(re.compile("api/state")):
            page.clock.run_for(1000)
    hide = (
        "hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.evaluate(hide, True)
    asked.clear()
    pass_seconds(page)
    assert not asked
    with page.expect_response(re.compile("api/state")):
        page.evaluate(hide, False)
    page.get_by_role("button", name="Pause").click()
    asked.clear()
    pass_seconds(page)
    assert not asked


def pass_seconds(page: Page) -> None:
    """Five of the page's seconds; between them answers arrive that are on their way."""
    for _ in range(5):
        page.clock.run_for(1000)
        assert page.evaluate("fetch('healthz').then(answer => answer.status)") == 200


def test_a_browser_logs_in_by_the_token(opened: Open, browser: Browser, pulsar: PulsarAddress) -> None:
    secured = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"http": {"token": TOKEN}}))
    secured.start()
    try:
        with browser.new_page() as page, pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            page.goto(secured.http)  # it would ask for a name and a password
        page = opened(
            "settings?search=token", at=secured.http, http_credentials={"username": "me", "password": TOKEN}
        ).page
        expect(page.get_by_role("row", name="http.token ").get_by_role("cell").first).to_have_text("set, not shown")
        assert TOKEN not in page.content()
        page.close()  # it would go on asking while the bridge stops
    finally:
        secured.stop()


def test_a_bridge_that_is_frozen_or_starts_is_told_of(opened: Open) -> None:
    watched = opened("overview")
    page = watched.page
    expect(page.locator("#health")).to_have_text("Ready")
    page.clock.install()
    page.reload()
    expect(page.locator("#health")).to_have_text("Ready")
    page.route("**/api/state*", lambda route: None)  # it is never answered
    with page.expect_request(re.compile("api/state")):
        page.clock.run_for(1000)
    page.clock.run_for(10_000)
    expect(page.locator("#health")).to_have_text("No answer")
    page.unroute("**/api/state*")
    starts = "it starts, and waits for the cluster"
    page.route("**/api/state*", lambda route: route.fulfill(status=503, content_type="text/plain", body=starts))
    with page.expect_response(re.compile("api/state")):
        page.clock.run_for(3000)
    expect(page.locator("#facts")).to_contain_text(starts)
    page.unroute("**/api/state*")
    with page.expect_response(re.compile("api/state")):
        page.clock.run_for(3000)
    expect(page.locator("#health")).to_have_text("Ready")
    watched.wrong.clear()  # the console names each answer that is none


def test_a_bridge_that_is_gone_is_told_of(opened: Open, pulsar: PulsarAddress) -> None:
    gone = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    gone.start()
    try:
        watched = opened("overview", at=gone.http)
        expect(watched.page.locator("#health")).to_have_text("Ready")
        gone.stop()
        expect(watched.page.locator("#health")).to_have_text("No answer")
        expect(watched.page.locator("#facts")).to_contain_text("The last answer came")
        watched.wrong.clear()
    finally:
        gone.stop()
