"""What a node asks of another one for itself, and how a request is put into an Envelope and its answer taken out."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.cluster import Cluster
from bridge.errors import KafkaError
from bridge.kafka import envelope, frames, message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer, DecodeError
from bridge.relay.peers import Peers, Unreachable
from bridge.requests.api import Api
from bridge.requests.session import Session
from bridge.runtime.futures import loop_time

_QUESTION_SECONDS: Final = 2.0


def enveloped(api: Api, version: int, body: Buffer, namespace: str, session: Session | None = None) -> envelope.Request:
    """A request for another node. `session`: of the client that has sent it; None: the node asks for itself."""
    flexible = api.is_flexible(version)
    head = frames.request_header(api.key, version, 0, "" if session is None else session.client_id, flexible)
    asked = envelope.Request(
        request_data=head + body, request_principal=None, client_host_address=b"", namespace=namespace
    )
    if session is not None:
        principal = envelope.Principal(type=session.principal.type, name=session.principal.name)
        asked.request_principal = envelope.encode_principal(principal)
        asked.client_host_address = envelope.encode_host(session.host.removeprefix("/"))
    return asked


def tell_connection(asked: envelope.Request, session: Session, sender: int) -> None:
    """Tell on which of its connections the client has sent it; `sender`: this node's incarnation."""
    asked.sender, asked.connection = sender, session.id
    asked.connected_ms = max(int((loop_time() - session.connected_at) * 1000), 0)


def answered(response: envelope.Response, api: Api, version: int) -> memoryview | None:
    """The body of the answer in an Envelope's; None where there is none."""
    if response.response_data is None:
        return None
    return memoryview(response.response_data)[5 if api.is_flexible(version) else 4 :]  # after the header


def decoded(api: Api, data: memoryview, version: int) -> Any:
    """The answer of which this is the body; DecodeError."""
    return message.decode_prefix(api.response, data, version, api.is_flexible(version))[0]


@dataclass(frozen=True, slots=True)
class Questions:
    """What this node asks of others for itself (`requests.api.OtherNodes`)."""

    nodes: Cluster
    peers: Peers
    namespace: str = ""
    """Whose topics and groups are meant; empty: the bridge's own."""

    def of(self, namespace: str) -> "Questions":
        """About the topics and groups of this namespace."""
        return replace(self, namespace=namespace)

    def coordinator(self, group_slot: int) -> int | None:
        """The other node that has a group slot of the views; None where it is this one, or not known."""
        node = self.nodes.snapshot.coordinator(group_slot)
        return None if node is None or node.id == self.nodes.node_id else node.id

    async def ask(self, node: int, api: Api, request: Any, version: int) -> Any:
        """Its answer; COORDINATOR_NOT_AVAILABLE where there is none in time."""
        body = message.encode(request, version, api.is_flexible(version))
        asked = enveloped(api, version, body, self.namespace)
        try:
            async with asyncio.timeout(_QUESTION_SECONDS):
                response = await self.peers.ask(node, asked, 0, lambda answer: None)
            data = answered(response, api, version)
            if data is not None:
                return decoded(api, data, version)
            failure: Exception = Unreachable(f"it answers with error {response.error_code}")
        except (Unreachable, TimeoutError, DecodeError) as error:
            failure = error
        self.peers.note_unanswered(node, api.name, failure)
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {node} was asked in vain: {str(failure) or 'no answer'}"
        )
