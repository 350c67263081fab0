"""HTTP, settings, and the texts that clients choose: names, patterns, subscriptions, configs."""

from __future__ import annotations

import asyncio
import tomllib
from functools import cache
from typing import Any

import h11

from bridge import config
from bridge.config import HttpSettings
from bridge.config.tenants import TenantSettings, is_namespace, parse_allowed
from bridge.errors import KafkaError, SettingsError
from bridge.groups.classic import subscription
from bridge.groups.consumer import regex
from bridge.http.access import HttpAccess
from bridge.http.server import HttpServer
from bridge.kafka.consumer_protocol import Subscription
from bridge.kafka.message import encode
from bridge.net.http1 import HttpError
from bridge.net.http_client import HttpClient
from bridge.pulsar.admin import AdminError, Retention
from bridge.pulsar.admin.rest import topic_path
from bridge.security.principal import user
from bridge.security.tenants import Tenants
from bridge.storage import names
from bridge.storage.names import Names
from bridge.storage.topics import configs
from bridge.storage.topics.config_table import TABLE
from bridge.telemetry.metrics import Metrics
from tests.fuzz.decoders.target import Input, Target, part, same

_TOKEN = "a-token-of-the-metrics-port"  # noqa: S105 — of this check alone

# ---- HTTP ------------------------------------------------------------------------------------------------------------


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _access() -> HttpAccess:
    return HttpAccess(HttpSettings(token=_TOKEN), Metrics().http_unauthorized)


class _Writer:
    """A socket's other side: what was written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.transport = self

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None: ...

    async def wait_closed(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def get_extra_info(self, _: str) -> None: ...


async def _reader(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def _render(_: bool) -> tuple[bytes, str]:
    return b"metric 1\n", "text/plain"


def check_http_request(data: bytes) -> bool:
    """What comes to the metrics port: nothing is answered, or one whole response."""

    async def exchange() -> bytes:
        server = HttpServer(HttpSettings(), Metrics(), {}, {"/cluster": lambda: {}}, _render)
        server._access = _access()
        writer = _Writer()
        visit, _ = server._places.enter("10.0.0.1")
        await server._exchange(await _reader(data), writer, visit)  # type: ignore[arg-type]
        await server.stop()
        return bytes(writer.written)

    written = _loop().run_until_complete(exchange())
    if not written:
        return False
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="HEAD" if data.startswith(b"HEAD ") else "GET", target="/", headers=[("Host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(written)
    events = []
    while (event := client.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        events.append(event)
        if isinstance(event, h11.EndOfMessage):
            break
    same(isinstance(events[-1], h11.EndOfMessage), True, "the end of the response")
    return isinstance(events[0], h11.Response) and events[0].status_code == 200


class _Client(HttpClient):
    """Whose connections lead nowhere and are answered with given bytes."""

    answer = b""

    async def _open(self, *_: Any) -> Any:
        return await _reader(self.answer), _Writer()


def check_http_response(data: bytes) -> bool:
    """What an HTTP server answers, Pulsar's admin interface or a token issuer: HttpError, or a response in bounds."""

    async def ask() -> Any:
        client = _Client(1, 10, None, max_body_bytes=1000)
        client.answer = data
        try:
            return await client.request("GET", "http://host/path", {})
        except HttpError:
            return None
        finally:
            await client.close()

    found = _loop().run_until_complete(ask())
    if found is None:
        return False
    same(len(found.body) <= 1000, True, "the bound of the body")
    return True


def http_requests() -> list[bytes]:
    """Of each path; of a method and a path that are not served."""
    lines = (b"GET /metrics", b"HEAD /healthz", b"GET /readyz?x", b"GET /cluster", b"POST /metrics", b"GET /other")
    more = "Host: h\r\nAccept: application/openmetrics-text\r\nContent-Length: 0\r\n"
    shown = f"Authorization: Bearer {_TOKEN}\r\n"
    return [b"%s HTTP/1.1\r\n%s\r\n" % (line, (more + shown).encode()) for line in lines]


def http_responses() -> list[bytes]:
    """With a length, in chunks, until the end, without a body, after another."""
    return [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\nreason",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 307 Moved\r\nLocation: http://b/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ]


# ---- settings --------------------------------------------------------------------------------------------------------


def check_settings(data: bytes) -> bool:
    """A settings file: SettingsError, or settings that come back from their own file."""
    try:
        values = tomllib.loads(data.decode("utf-8", "replace"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    if not all(isinstance(one, dict) for one in values.values()):
        return False
    try:
        found = config.Settings().with_values(**values)
    except SettingsError:
        return False
    same(config.load_text(found.to_toml()), found, "settings")
    _ = found.listeners
    return True


def settings() -> list[bytes]:
    """The defaults, section by section; listeners; tenants."""
    sections = config.Settings().to_toml().split("\n\n")
    listeners = '[kafka]\nlisteners = "IN://127.0.0.1:9092,OUT://[::1]:9093"\nadvertised_listeners = "OUT://h:1"\n'
    protocols = 'listener_security_protocol_map = "IN:PLAINTEXT,OUT:SASL_PLAINTEXT"\n'
    own = '[listener.OUT]\nallow_anonymous = true\nsasl_enabled_mechanisms = "PLAIN"\n'
    tenants = '[tenants]\nrules = "principal User:*/* -> $1/$2"\nnamespaces = "acme/*"\n'
    hosts = '[pulsar]\nallowed_hosts = "*.example, 10.0.0.0/8, ::1"\nservice_url = "pulsar://a:1,b:2"\n'
    return [one.encode() for one in (*sections, listeners + protocols + own, tenants, hosts)]


# ---- tenants ---------------------------------------------------------------------------------------------------------

_OWN = "bridge/own"


def check_tenants(data: bytes) -> bool:
    """Rules, and a client: SettingsError, or no client is led by its name where names may not lead."""
    given = Input(data)
    rules, allowed, name, client_id = (given.part().decode("utf-8", "replace") for _ in range(4))
    try:
        found = Tenants(TenantSettings(rules, allowed), _OWN)
    except SettingsError:
        return False
    patterns = parse_allowed(allowed)
    written = {rule.namespace for rule in found._rules}
    for principal, said in ((user(name), client_id), (None, client_id)):
        for user_name in (None, client_id):
            where = found.namespace(principal, "LISTENER", said, user_name)
            if where is None or where == _OWN:
                same(where is None or where in written or not found._required, True, "the way to the own namespace")
                continue
            same(is_namespace(where), True, "what is a namespace")
            same(where in written or any(one.fullmatch(where) for one in patterns), True, "where clients may be")
            same(found.is_reachable(where), True, "what can be reached")
    return True


def tenants() -> list[bytes]:
    """Of the module's description."""
    rules = b"principal User:*/* -> $1/$2\nuser_name kop-*/* -> kop-$1/$2\nlistener LISTENER -> partners/kafka"
    return [
        b"".join(map(part, (rules, b"acme/*,kop-*/*", b"acme/orders", b"kop-a/b"))),
        b"".join(map(part, (b"client_id lab-* -> lab/kafka", b"", b"alice", b"lab-1"))),
    ]


# ---- what clients name -----------------------------------------------------------------------------------------------


def check_name(data: bytes) -> bool:
    """A topic's name: refused, or one topic of the namespace and no other place, and the same on the way back."""
    name = data.decode("utf-8", "replace")
    names.partition_number(name)
    try:
        names.check(name)
    except KafkaError:
        return False
    if name in names.INTERNAL:
        return True
    ours = Names("tenant/namespace")
    full = ours.pulsar(name)
    same(ours.kafka(full), name, "names")
    for index in (0, 12):
        same(ours.owner(ours.partition(name, index, partitioned=True)), name, "names of partitions")
        same(names.partition_number(ours.partition(name, index, partitioned=True)), index, "numbers of partitions")
    same(topic_path(full), f"persistent/tenant/namespace/{name}", "paths")
    return True


def check_path(data: bytes) -> bool:
    """Any name in a path of the admin interface: AdminError, or one endpoint's path."""
    try:
        path = topic_path(data.decode("utf-8", "replace"))
    except AdminError:
        return False
    same(path.count("/"), 3, "the depth of a path")
    same(any(one in path for one in ("?", "#", "//", "/../", "/./")), False, "ways out")
    return True


def check_pattern(data: bytes) -> bool:
    """A pattern of a subscription and a name."""
    given = Input(data)
    pattern, name = given.part().decode("utf-8", "replace"), given.rest().decode("utf-8", "replace")
    try:
        fits = regex.compiled(pattern)
    except KafkaError:
        return False
    fits(name)
    return True


def check_subscription(data: bytes) -> bool:
    """The metadata of a member of a classic group: its topics, or None."""
    return subscription.topics(data) is not None


_DEFAULTS = configs.TopicDefaults(Retention(-1, -1), 1 << 20)


def check_configs(data: bytes) -> bool:
    """Topic configs: a Kafka error, or what is kept and is taken again as it is."""
    given = Input(data)
    asked: dict[str, str | None] = {}
    while name := given.part():
        asked[name.decode("utf-8", "replace")] = given.part().decode("utf-8", "replace")
    try:
        kept = configs.validate(asked, _DEFAULTS)
    except KafkaError:
        return False
    same(configs.validate(dict(kept), _DEFAULTS), kept, "configs")
    policies = configs.to_policies(kept, _DEFAULTS)
    configs.describe(kept, policies, _DEFAULTS)
    return True


def config_seeds() -> list[bytes]:
    """A value of each config."""
    return [
        part(name.encode()) + part(value.encode())
        for name, one in TABLE.items()
        for value in (_DEFAULTS.value(name), *one.choices)
        if value is not None
    ]


def subscriptions() -> list[bytes]:
    """Of no, one and two topics."""
    said = {0: [], 1: ["orders"], 3: ["a", "b"]}
    return [
        version.to_bytes(2, "big") + bytes(encode(Subscription(topics=topics), version, flexible=False))
        for version, topics in said.items()
    ]


_HTTP_WORDS = (
    b"\r\n", b"HTTP/1.1", b"Transfer-Encoding: chunked\r\n", b"Content-Length: ", b"Connection: Upgrade\r\n",
    b"Expect: 100-continue\r\n", b"99999999999999999999", b"CONNECT ", b"HEAD ", b"Authorization: Bearer ",
)  # fmt: skip
_NAME_WORDS = (
    b"-partition-",
    b"__change_events",
    b"%2F",
    b"..",
    b"persistent://",
    b"__bridge_",
    "ı".encode(),
    b"9" * 4400,
)

_NO_PARTITION = b"x-partition-" + b"9" * 4400

TARGETS = (
    Target("http_requests", check_http_request, http_requests, _HTTP_WORDS),
    Target("http_responses", check_http_response, http_responses, _HTTP_WORDS),
    Target("settings", check_settings, settings, (b"[listener.A]", b"9" * 30, b"nan", b"inf", b"'''", b"1979-05-27")),
    Target(
        "tenant_rules", check_tenants, tenants, (b"principal ", b"client_id ", b" -> ", b"$1", b"*", b"User:", b"/")
    ),
    Target(
        "topic_names", check_name, lambda: [b"orders", b"a.b_c-1", b"x-partition-7"], _NAME_WORDS, 8192, [_NO_PARTITION]
    ),
    Target("admin_paths", check_path, lambda: [b"persistent://t/n/orders", b"non-persistent://t/n/a/b"], _NAME_WORDS),
    Target("patterns", check_pattern, lambda: [part(b"ord.*|[a-c]{2,3}") + b"orders", part(b"(?i)\\pL+") + b"a"]),
    Target("subscriptions", check_subscription, subscriptions),
    Target(
        "topic_configs",
        check_configs,
        config_seeds,
        (b"nan", b"inf", b"1_000", "٣".encode(), b"9" * 30, b"-1", b"true", b"compact,delete"),
    ),
)
