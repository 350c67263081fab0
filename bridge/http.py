"""The operator's HTTP side: /metrics, /healthz and /readyz.

healthz: the process runs and its event loop turns; restart it when this fails. readyz: every named check holds, so that
clients are served; the answer says which does not, and why.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from bridge import log
from bridge.config import Address, HttpSettings
from bridge.errors import BridgeError, StartupError
from bridge.metrics import Metrics

Check = Callable[[], Awaitable[str | None]]
"""A readiness check: None when all is well, else the reason in words for an operator."""

CHECK_SECONDS = 5.0
# Probes come from every load balancer at once: one round of checks answers all that ask within this time.
_FRESH_SECONDS = 1.0
_LOG = log.get(__name__)


class HttpServer:
    """Serves one bridge process's metrics and health."""

    def __init__(self, settings: HttpSettings, metrics: Metrics, checks: Mapping[str, Check]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._checks = dict(checks)
        self._runner: web.AppRunner | None = None
        self._round: asyncio.Task[dict[str, str | None]] | None = None
        self._round_at = 0.0
        self.draining = False
        """Set it when the process should get no more clients: readyz then fails."""
        self.port = 0
        """The port listened on, once started."""

    async def start(self) -> None:
        """Listen; StartupError when the address cannot be had."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                web.get("/healthz", self._get_health),
                web.get("/readyz", self._get_readiness),
            ]
        )
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        address = Address.parse(self._settings.listen)
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            await runner.cleanup()
            reason = error.strerror or str(error)
            raise StartupError(f"http.listen = {self._settings.listen}: cannot listen there: {reason}") from None
        self._runner = runner
        self.port = runner.addresses[0][1]
        _LOG.info("= http listening", extra={"address": Address(address.host, self.port)})

    async def stop(self) -> None:
        """Answer what is under way, then close."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _get_metrics(self, request: web.Request) -> web.Response:
        # In a thread: 1,000 series take 13 ms, which no client's request should wait for.
        body, content_type = await asyncio.to_thread(self._metrics.render, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _get_health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _get_readiness(self, request: web.Request) -> web.Response:
        reasons = await self._reasons()
        if self.draining:
            reasons = {**reasons, "draining": "the process is stopping"}
        failed = {name: reason for name, reason in reasons.items() if reason is not None}
        answer = {"ready": not failed, "checks": {name: reason or "ok" for name, reason in reasons.items()}}
        return web.json_response(answer, status=503 if failed else 200)

    async def _reasons(self) -> dict[str, str | None]:
        now = asyncio.get_running_loop().time()
        if self._round is None or (self._round.done() and now - self._round_at > _FRESH_SECONDS):
            self._round = asyncio.create_task(self._run_checks())
            self._round_at = now
        # shielded: one probe that hangs up must not cancel the others' round
        return await asyncio.shield(self._round)

    async def _run_checks(self) -> dict[str, str | None]:
        reasons = await asyncio.gather(*(_reason(check) for check in self._checks.values()))
        return dict(zip(self._checks, reasons, strict=True))


async def _reason(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:.0f} s"
    except (BridgeError, OSError) as error:
        return str(error) or type(error).__name__
