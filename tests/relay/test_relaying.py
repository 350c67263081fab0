"""What a node asks the owner of a request, and what that is told when the client has gone; the owner is a stub."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from bridge.apis import share_acknowledge
from bridge.kafka import envelope, message
from bridge.relay.relaying import Relaying
from bridge.requests.session import Session

_HERE, _OWNER, _VERSION = 1, 2, 1


class _Peers:
    """The owner: answers at once."""

    def __init__(self) -> None:
        self.asked: list[envelope.Request] = []
        self.unanswered: list[str] = []
        self.has_asked = asyncio.Event()

    async def ask(self, node: int, request: envelope.Request, key: int, sent: Any) -> envelope.Response:
        assert node == _OWNER
        self.asked.append(request)
        self.has_asked.set()
        answer = share_acknowledge.Response(
            error_code=0, error_message=None, acquisition_lock_timeout_ms=1, responses=[], node_endpoints=[]
        )
        header = bytes(5)
        return envelope.Response(response_data=header + message.encode(answer, _VERSION, True), error_code=0)

    def note_unanswered(self, node: int, api: str, error: Exception) -> None:
        self.unanswered.append(str(error))


def _relaying(peers: _Peers) -> Relaying:
    cluster = SimpleNamespace(
        node_id=_HERE, view=SimpleNamespace(members={}),
        snapshot=SimpleNamespace(coordinator=lambda slot: SimpleNamespace(id=_OWNER)),
    )  # fmt: skip
    broker: Any = SimpleNamespace(
        cluster=cluster, groups=SimpleNamespace(slot_of=lambda group_id: 0), cpu_thread=None, shares=None
    )
    return Relaying(broker, cast(Any, peers))


async def test_a_client_with_as_many_actions_as_may_be_has_not_gone_and_its_loss_is_told() -> None:
    peers, session = _Peers(), Session(7, "10.0.0.1:1", "", api_version=_VERSION)
    api = _relaying(peers).apis({share_acknowledge.API.key: share_acknowledge.API})[share_acknowledge.API.key]
    request = share_acknowledge.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[])
    while session.on_close(object(), lambda: None):
        pass
    answer = await api.handle(request, cast(Any, None), session)
    assert (answer.error_code, peers.unanswered) == (0, [])
    assert not peers.asked[-1].is_lost
    peers.has_asked.clear()
    session.closed()
    async with asyncio.timeout(5):
        await peers.has_asked.wait()
    assert (peers.asked[-1].connection, peers.asked[-1].is_lost) == (7, True)
