"""OAuth2 client credentials, at an issuer made of another implementation's HTTP server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import jwt
import pytest
from aiohttp import web

from bridge.config import PulsarSettings
from bridge.errors import SettingsError
from bridge.pulsar import PulsarError
from bridge.pulsar.auth import oauth2
from bridge.pulsar.auth.oauth2 import OAuth2
from bridge.telemetry.metrics import PulsarMetrics

Answer = Callable[[int], web.Response]
SECRET = "very secret words"  # noqa: S105


class Issuer:
    """Counts its answers; `answer` makes the next ones."""

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.answer: Answer = lambda number: web.json_response({"access_token": f"t{number}", "expires_in": 3600})
        self.discovery: dict[str, object] | None = None
        self._asked = asyncio.Event()

    async def discover(self, _: web.Request) -> web.Response:
        found = {"issuer": self.url, "token_endpoint": f"{self.url}/token"}
        return web.json_response(found if self.discovery is None else self.discovery)

    async def token(self, request: web.Request) -> web.Response:
        self.forms.append({key: str(value) for key, value in (await request.post()).items()})
        self._asked.set()
        return self.answer(len(self.forms))

    async def asked(self, times: int) -> None:
        async with asyncio.timeout(20):
            while len(self.forms) < times:
                self._asked.clear()
                await self._asked.wait()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer, app = Issuer(), web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.discover)
    app.router.add_post("/token", issuer.token)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield issuer
    await runner.cleanup()


Make = Callable[..., OAuth2]


@pytest.fixture
async def make(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Make]:
    made: list[OAuth2] = []
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "client_credentials", "client_id": "bridge", "client_secret": SECRET}))

    def make(metrics: PulsarMetrics | None = None, **settings: str) -> OAuth2:
        values = {"oauth2_key_file": str(key), "oauth2_issuer_url": issuer.url, **settings}
        made.append(OAuth2(PulsarSettings(**values), metrics or PulsarMetrics()))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_one_token_serves_all_who_ask(issuer: Issuer, make: Make) -> None:
    credentials = make(oauth2_audience="urn:pulsar", oauth2_scope="a b")
    assert await asyncio.gather(*(credentials.data() for _ in range(20))) == [b"t1"] * 20
    assert credentials.method == "token"
    assert issuer.forms == [
        {
            "grant_type": "client_credentials", "client_id": "bridge", "client_secret": SECRET,
            "audience": "urn:pulsar", "scope": "a b",
        }
    ]  # fmt: skip


async def test_the_endpoint_may_be_named_and_the_issuer_be_in_the_key_file(
    issuer: Issuer, make: Make, tmp_path: Path
) -> None:
    assert await make(oauth2_issuer_url="", oauth2_token_url=f"{issuer.url}/token").data() == b"t1"
    key = {"client_id": "b", "client_secret": "s", "issuer_url": issuer.url + "/"}
    (tmp_path / "other.json").write_text(json.dumps(key))
    assert await make(oauth2_issuer_url="", oauth2_key_file=str(tmp_path / "other.json")).data() == b"t2"


async def test_a_token_is_replaced_before_it_ends_without_being_asked_for(issuer: Issuer, make: Make) -> None:
    issuer.answer = lambda number: web.json_response({"access_token": f"t{number}", "expires_in": 1.0})
    metrics = PulsarMetrics()
    await make(metrics).data()
    await issuer.asked(3)
    assert metrics.token_fetches.value >= 2


async def test_a_token_outlives_an_issuer_that_is_away_and_the_next_is_fetched_when_it_is_back(
    issuer: Issuer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth2, "_REFRESH_AT", 0.00001)
    metrics, good = PulsarMetrics(), issuer.answer
    issuer.answer = lambda number: good(number) if number in (1, 3) else web.Response(status=503)
    credentials = make(metrics)
    assert await credentials.data() == b"t1"
    await issuer.asked(2)
    assert await credentials.data() == b"t1"
    await issuer.asked(3)
    monkeypatch.setattr(oauth2, "_REFRESH_AT", 0.8)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "fetch a token for Pulsar"))
    assert await credentials.data() == b"t3"
    assert metrics.token_fetch_errors.value == 1


async def test_a_token_that_pulsar_refuses_is_replaced_but_not_at_every_refusal(
    issuer: Issuer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = make()
    await credentials.data()
    credentials.refused(b"t1")
    assert await credentials.data() == b"t1"
    monkeypatch.setattr(oauth2, "_MIN_AGE_SECONDS", 0.0)
    credentials.refused(b"another")
    assert await credentials.data() == b"t1"
    credentials.refused(b"t1")
    assert await credentials.data() == b"t2"


async def test_what_the_issuer_says_is_the_error_and_it_is_not_asked_again_at_once(issuer: Issuer, make: Make) -> None:
    refusal = {"error": "invalid_client", "error_description": "who?"}
    issuer.answer = lambda _: web.json_response(refusal, status=401)
    credentials = make()
    for _ in range(5):
        with pytest.raises(PulsarError, match="HTTP 401 invalid_client who") as caught:
            await credentials.data()
        assert caught.value.retriable
        assert SECRET not in str(caught.value)
    assert len(issuer.forms) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        b"", b"[]", b"{", b"x" * 2_000_000, b'{"access_token": 1}', b'{"access_token": ""}',
        b'{"access_token": "a\\r\\nX-Evil: 1"}', b'{"access_token": "a", "token_type": "mac"}',
        b'{"access_token": "a", "expires_in": 0}', b'{"access_token": "a", "expires_in": "nan"}',
        b'{"access_token": "a", "expires_in": -5}', b"[" * 100_000,
    ],
)  # fmt: skip
async def test_an_answer_that_is_no_token_is_an_error(issuer: Issuer, make: Make, wrong: bytes) -> None:
    issuer.answer = lambda _: web.Response(body=wrong, content_type="application/json")
    with pytest.raises(PulsarError, match="no token from"):
        await make().data()


@pytest.mark.parametrize(
    "wrong", [{}, {"issuer": "https://other.example"}, {"token_endpoint": "http://other.example/token"}]
)
async def test_a_secret_goes_only_where_the_issuer_itself_sends_it_and_encrypted(
    issuer: Issuer, make: Make, wrong: dict[str, object]
) -> None:
    issuer.discovery = {"issuer": issuer.url, "token_endpoint": f"{issuer.url}/token", **wrong} if wrong else {}
    with pytest.raises(PulsarError, match="no token from"):
        await make().data()
    assert not issuer.forms


async def test_a_token_without_a_duration_lasts_as_long_as_it_says(issuer: Issuer, make: Make) -> None:
    token = jwt.encode({"exp": 4_000_000_000}, "k" * 32, "HS256")
    issuer.answer = lambda _: web.json_response({"access_token": token})
    metrics = PulsarMetrics()
    assert await make(metrics).data() == token.encode()
    assert metrics.token_expires_seconds["oauth2"] > 1_800_000_000


async def test_what_waits_for_a_token_ends_with_the_client(issuer: Issuer, make: Make) -> None:
    issuer.answer = lambda _: web.Response(status=503)
    credentials = make()
    await credentials.close()
    with pytest.raises(PulsarError, match="closed"):
        await credentials.data()


@pytest.mark.parametrize(
    "settings",
    [
        {"oauth2_issuer_url": "https://a"}, {"oauth2_audience": "a"}, {"oauth2_issuer_url": "http://issuer.example"},
        {"oauth2_issuer_url": "https://a", "oauth2_token_url": "https://b", "oauth2_key_file": __file__},
        {"oauth2_key_file": __file__, "token": "t"}, {"oauth2_token_url": "https://user:password@issuer.example/"},
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"pulsar\."):
        PulsarSettings(**settings)  # type: ignore[arg-type]
