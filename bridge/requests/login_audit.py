"""What becomes of a log-in is told: to the audit log and the metrics, and to the client not at once if it failed."""

import asyncio

from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.telemetry import log

_audit = log.get("bridge.audit")


async def tell(broker: Broker, session: Session, outcome: str, reason: str = "", name: str | None = None) -> None:
    """`outcome`: one of `metrics.LOGIN_OUTCOMES`. A failed one takes a while (KIP-306), of this connection alone."""
    login = session.login
    assert login is not None  # noqa: S101 - who logs in has one
    mechanism = login.mechanism or "none"
    broker.metrics.login(mechanism, outcome)
    about: dict[str, object] = {
        "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
        "mechanism": mechanism,
    }  # fmt: skip
    if outcome == "succeeded":
        about["again"] = login.times > 1
        _audit.info("= logged in", extra={**about, "principal": session.principal})
        return
    _audit.warning("! log-in refused", extra={**about, "outcome": outcome, "reason": reason, "name": name})
    if outcome == "failed" and broker.login_failures.failed(session.host[1:], asyncio.get_running_loop().time()):
        _audit.warning("! address blocked", extra={"peer": session.peer, "listener": session.listener})
    await asyncio.sleep(broker.settings.kafka.connection_failed_authentication_delay_ms / 1000)
