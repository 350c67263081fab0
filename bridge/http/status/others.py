"""What the other nodes answer to this one's page: each is asked what it knows itself, over its internal listener.

The question is a request that only nodes may ask, of a number that no API of Kafka's has. Where nodes have no internal
listener (`cluster.internal_listen`) they cannot be asked: the page says so.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridge.config import INTERNAL
from bridge.errors import BridgeError, KafkaError
from bridge.http.status.query import BadQuery, Query, parse
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.runtime.futures import loop_time, retrieve_exception

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode

KEY: Final = 32_000
FORM: Final = 0
"""The version of what nodes tell each other. It grows with each change of it: nodes of two forms do not understand each
other, and each page names the other node."""
_PATIENCE_SECONDS: Final = 0.5
"""For so long a page waits for other nodes; what comes later is in the next one."""
_AGAIN_SECONDS: Final = 10.0
"""Until a node that gave no answer is asked again."""
_LASTS_SECONDS: Final = 30.0
"""An answer is shown for no longer than this, while the next is waited for."""
_MOST_ANSWERS: Final = 128
_NO_LISTENER: Final = "it cannot be asked: that takes cluster.internal_listen, on every node"


@message
class Request:
    """A question of the page, as `query.Query.encoded` has it."""

    query: str


@message
class Response:
    """The answer, as JSON."""

    content: bytes


def api(answer: Callable[[Query], Awaitable[object]]) -> Api:
    """What this node serves to others; `answer`: what it knows itself, or BadQuery."""

    async def handle(request: Request, broker: Broker, session: Session) -> Response:
        try:
            found = await answer(parse(b"?" + request.query.encode()))
        except BadQuery as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        return Response(content=json.dumps(found, separators=(",", ":")).encode())

    return Api(
        key=KEY,
        name="StatusOfNode",
        min_version=FORM,
        max_version=FORM,
        flexible=0,
        handle=handle,
        request=Request,
        response=Response,
        rights=NOTHING,
        read_only=True,
    )


async def _nothing(query: Query) -> object:
    raise NotImplementedError


_ASKED: Final = api(_nothing)


class Told(NamedTuple):
    """What one other node says."""

    node: int
    name: str
    content: Mapping[str, Any] | None
    """None: it does not answer."""
    reason: str = ""
    """Why there is no content."""


class _Answer:
    """A node's last answer to one question."""

    def __init__(self) -> None:
        self.at = self.failed_at = float("-inf")
        self.content: Mapping[str, Any] | None = None
        self.reason = ""
        self.asking: asyncio.Task[None] | None = None

    @property
    def latest(self) -> Mapping[str, Any] | None:
        """The content, unless it is of long ago."""
        return self.content if loop_time() - self.at <= _LASTS_SECONDS else None


class OtherPages:
    """Asks the other nodes for the page; their answers are shown for some seconds, and silence is told."""

    def __init__(self, node: "ObservedNode") -> None:
        self._node = node
        self._answers: OrderedDict[tuple[int, int, str], _Answer] = OrderedDict()

    async def ask(self, query: Query, seconds: float) -> list[Told]:
        """What each other member of the cluster says, `seconds` ago at most; waits half a second for it at most."""
        cluster = self._node.cluster
        if cluster is None:
            return []
        members = {one: member for one, member in cluster.view.members.items() if one != cluster.node_id}
        found = {
            one: self._begin(one, member.incarnation, query, seconds)
            for one, member in members.items()
            if member.endpoint_at(INTERNAL) is not None and self._node.other_nodes is not None
        }
        waiting = [one.asking for one in found.values() if one.asking is not None and one.latest is None]
        if waiting:
            await asyncio.wait(waiting, timeout=_PATIENCE_SECONDS)
        return [self._told(one, member.name, found.get(one)) for one, member in members.items()]

    async def ask_one(self, node: int, query: Query, seconds: float) -> Told | None:
        """The same of one node; None where it is no other member."""
        return next((one for one in await self.ask(query._replace(node=node), seconds) if one.node == node), None)

    def close(self) -> None:
        """Ask nothing any more."""
        for answer in self._answers.values():
            if answer.asking is not None:
                answer.asking.cancel()

    def _begin(self, node: int, incarnation: int, query: Query, seconds: float) -> _Answer:
        """The node's last answer; a new one is asked for where that is old."""
        key = node, incarnation, query.encoded
        answer = self._answers.setdefault(key, _Answer())
        self._answers.move_to_end(key)
        while len(self._answers) > _MOST_ANSWERS:
            _, old = self._answers.popitem(last=False)
            if old.asking is not None:
                old.asking.cancel()
        now = loop_time()
        is_wanted = query.node in (None, node)
        if (
            is_wanted
            and answer.asking is None
            and now - answer.at > seconds
            and now - answer.failed_at > _AGAIN_SECONDS
        ):
            answer.asking = asyncio.get_running_loop().create_task(
                self._ask(node, query._replace(node=None), answer), name="status of another node"
            )
            answer.asking.add_done_callback(retrieve_exception)
        return answer

    async def _ask(self, node: int, query: Query, answer: _Answer) -> None:
        others = self._node.other_nodes
        try:
            if others is not None:
                response: Response = await others.ask(node, _ASKED, Request(query=query.encoded), FORM)
                answer.content, answer.at, answer.reason = json.loads(response.content), loop_time(), ""
        except ValueError:  # as where the question is refused: it has no place in the answer
            answer.content, answer.failed_at, answer.reason = None, loop_time(), "its answer cannot be read"
        except (BridgeError, OSError) as error:
            answer.content, answer.failed_at, answer.reason = None, loop_time(), str(error) or "it does not answer"
        finally:
            answer.asking = None

    @staticmethod
    def _told(node: int, name: str, answer: _Answer | None) -> Told:
        if answer is None:
            return Told(node, name, None, _NO_LISTENER)
        content = answer.latest
        return Told(node, name, content, "" if content is not None else answer.reason or "it has not answered yet")
