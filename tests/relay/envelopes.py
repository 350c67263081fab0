"""Requests of a client, passed on to a node as another node does it."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.kafka import envelope, frames, message
from bridge.relay.peers import Peer
from bridge.requests.api import Api


def inner(api: Api, request: Any, version: int) -> envelope.Request:
    flexible = api.is_flexible(version)
    data = frames.request_header(api.key, version, 5, "some-client", flexible)
    return envelope.Request(
        request_data=data + message.encode(request, version, flexible),
        request_principal=envelope.encode_principal(envelope.Principal(type="User", name="alice")),
        client_host_address=envelope.encode_host("10.1.2.3"),
    )


async def peer_at(address: str) -> Peer:
    host, _, port = address.rpartition(":")
    return Peer(*await asyncio.open_connection(host, int(port)))


async def ask(peer: Peer, api: Api, request: Any, version: int) -> Any:
    answer = await peer.ask(inner(api, request, version), lambda answer: None)
    assert answer.response_data is not None, answer.error_code
    header = 5 if api.is_flexible(version) else 4
    assert int.from_bytes(answer.response_data[:4], "big") == 5
    data = answer.response_data[header:]
    return message.decode_prefix(api.response, data, version, api.is_flexible(version))[0]
