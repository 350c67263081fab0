"""What an API file defines (`Api`, `Rights`), and what all handlers may use (`Broker`)."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.requests.audit import AuditedChange
from bridge.requests.encoded import EncodedBody, SharedResponses
from bridge.requests.error_response import error_response
from bridge.requests.routes import Route
from bridge.requests.session import Session
from bridge.runtime.fairness import Quota
from bridge.runtime.threads import WorkerThreads
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.security.quotas.creations import TopicCreations
from bridge.security.sasl.failures import LoginFailures
from bridge.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from bridge.access.security_store.store import SecurityStore
    from bridge.cluster import Cluster
    from bridge.groups.coordinator import GroupCoordinator
    from bridge.groups.offsets import Offsets
    from bridge.shares.partitions import Shares
    from bridge.storage.topics.closed_logs import ClosedLogs
    from bridge.storage.topics.topics import Topics
    from bridge.transactions.transactions import Transactions

NO_AUTHORIZER = "No Authorizer is configured."
"""Tools look for it."""
MAX_WAITING_PARTITIONS = 500_000
"""Of the Fetches of all clients: some hundred bytes each."""
MAX_CONTROL_BYTES = 10 * 1024 * 1024
"""The longest request of an API that carries no records: far above any real one, and bounded in decoding time."""


class Authorization(Protocol):
    """Decides what clients may do."""

    async def allowed(
        self, session: Session, operation: Operation, kind: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Those of some resources with which a client may do this."""

    def allows_at_once(self, session: Session, operation: Operation, resource: Resource) -> bool | None:
        """Whether it may do this with a resource; None where that has to be asked."""

    async def allowed_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether it may do this with any resource of the type (KIP-679)."""

    def viewer(self, session: Session) -> str:
        """The same for clients that may do the same with topics, as far as that is known without asking."""

    async def operations(self, session: Session, resource: Resource) -> int:
        """All that it may do with a resource, as the bits of KIP-430."""

    def of(self, namespace: str) -> "Authorization":
        """The one for clients that work in another namespace of Pulsar than the bridge's own."""

    def note_denial(self, session: Session, operation: Operation, resource: Resource) -> None:
        """A client asked for what it may not do."""


class OtherNodes(Protocol):
    """What this node may ask of others for itself."""

    def of(self, namespace: str) -> "OtherNodes":
        """The same, about another namespace of Pulsar than the bridge's own."""

    def coordinator(self, group_slot: int) -> int | None:
        """The other node that has a group slot of the views; None where it is this one, or not known."""

    async def ask(self, node: int, api: "Api", request: Any, version: int) -> Any:
        """Its answer; COORDINATOR_NOT_AVAILABLE where there is none in time."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Everything a handler may use; `node/server.py` makes it."""

    settings: Settings
    topics: "Topics"
    cluster: "Cluster"
    metrics: Metrics
    apis: "Mapping[int, Api]"
    groups: "GroupCoordinator"
    offsets: "Offsets"
    transactions: "Transactions"
    other_nodes: OtherNodes | None = None
    """None: they cannot be asked."""
    security: "SecurityStore | None" = None
    """Users, permissions and quotas that are kept in Pulsar."""
    creations: TopicCreations = field(default_factory=TopicCreations)
    """How many topics may be created because clients ask for them."""
    shared_responses: SharedResponses = field(default_factory=SharedResponses)
    cpu_thread: WorkerThreads = field(default_factory=lambda: WorkerThreads(1))
    """For pure Python work: the interpreter lock lets a second thread do no more of it, and the event loop waits for
    each."""
    login_failures: LoginFailures = field(default_factory=lambda: LoginFailures(0))
    authorization: "Authorization | None" = None
    """Who decides what clients may do; None: all may do everything."""
    waiting_fetches: Quota = field(default_factory=lambda: Quota(MAX_WAITING_PARTITIONS))
    shares: "Shares | None" = None
    """Share partitions that this node leads; None: share groups are not served."""
    closed_logs: "ClosedLogs | None" = None
    """Where partitions end that other nodes lead."""

    @property
    def acls(self) -> "SecurityStore":
        """Where access control entries are; SECURITY_DISABLED without an authorizer, as a Kafka without one says."""
        if self.security is None or not self.security.authorizes:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return self.security


class RequestLimit(NamedTuple):
    """The most that a request may ask for; docs/limits.md lists them all."""

    what: str
    maximum: int | str
    """A number, or the name of the setting that holds it."""
    exceeded: ErrorCode | str
    """What happens above it."""


Handle: TypeAlias = Callable[[Any, Broker, Session], Awaitable[Any]]
"""`async def handle(request, broker, session) -> Response | DeferredResponse[Response] | None`.

None: no response is sent. A `long_poll` may return a `LongPoll`. A handler may raise `KafkaError`, which is about the
request as a whole: the client gets `Api.failure`, or its connection is closed if there is none. Errors of single
topics, partitions or groups are fields of the response. Any other exception is a fault of the bridge: it is logged, and
the connection is closed.
"""


class ServedBy(StrEnum):
    """Which node a client has to ask."""

    ANY = "any"
    """All nodes answer the same, and execute what administrators ask for."""
    LEADER = "leader"
    """That which leads the partition; others answer NOT_LEADER_OR_FOLLOWER."""
    COORDINATOR = "coordinator"
    """That which has the group's slot; others answer NOT_COORDINATOR."""
    ITSELF = "itself"
    """Each for what it has itself: clients ask all, or one by its id."""


class Right(NamedTuple):
    """An operation that a client has to be allowed, and on what type of resource."""

    operation: Operation
    type: ResourceType
    note: str = ""
    """When, or instead of what."""


Rest: TypeAlias = Callable[[Any], Awaitable[Any]]
"""The API's handler, for what is left of a request."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a client has to be allowed, and how that is checked; `requests/rights.py` has the usual forms."""

    needed: tuple[Right, ...] = ()
    check: Callable[[Any, Any, Rest], Awaitable[Any]] | None = None
    """`async def check(request, checks: Checks, rest) -> Response`, which takes what the client may not do out of the
    request, has the handler do the rest, and adds the refusals; KafkaError refuses the whole request. None: the handler
    itself looks, or nothing is needed."""
    tells_operations: Callable[[Any], bool] | None = None
    """Whether a request asks for authorizedOperations (KIP-430): the check runs without an authorizer, too."""
    of_a_namespace: bool = False
    """Although it needs only rights to the cluster, it shows and changes nothing but a namespace's own, or which nodes
    there are."""

    @property
    def of_the_cluster(self) -> bool:
        """Whether the API is about what belongs to the whole cluster, as users and permissions do: clients of tenants
        may not use it."""
        needs_cluster_alone = bool(self.needed) and all(one.type is ResourceType.CLUSTER for one in self.needed)
        return needs_cluster_alone and not self.of_a_namespace


@dataclass(frozen=True, slots=True)
class Api:
    """One Kafka API: its key, its versions, its messages, its behaviour, and who may use it."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible: int | None
    """The first flexible version (KIP-482), if there is one."""
    handle: Handle = field(repr=False)
    request: type[Any]
    response: type[Any]
    rights: Rights = field(repr=False)
    error_response: Callable[[Any, int, str, int], Any | None] | None = field(default=None, repr=False)
    """`def error_response(request, error, text, version) -> Response | None`: the answer to an error of the whole
    request, where it does not follow from the messages as `requests/error_response.py` says."""
    audit: Callable[[Any, Any], Iterable[AuditedChange]] | None = field(default=None, repr=False)
    """`def audit(request, response)`, which tells what an answered request has changed."""
    route: Route | None = field(default=None, repr=False)
    """Which nodes a request is for, where all have one address; None: it is served where it arrives."""
    served_by: ServedBy = ServedBy.ANY
    at_once: bool = False
    """Its handler often has nothing to wait for, and begins without a task, which costs as much as half of a small
    request: unless its rights are checked before that (`futures.started`)."""
    read: Callable[[memoryview, int], Any] | None = None
    """A reader of its own instead of the compiled one: (body, version) -> request."""
    write: Callable[[Any, int], Sequence[Buffer]] | None = None
    """A writer of its own: (response, version) -> buffers, written one after another."""
    max_request_bytes: int = MAX_CONTROL_BYTES
    read_only: bool = False
    """It changes nothing: when its client hangs up it is cancelled, or not started. All else goes on, as in Kafka: with
    acks=0 a client sends and hangs up."""
    long_poll: bool = False
    """It waits for something to happen, and may be answered before: a connection that drains does not wait for it."""
    waits: bool = False
    """It waits for others, perhaps for long: the memory of the request is released when it is decoded."""
    pure: bool = False
    """Its response follows from the request and from what is never changed, such as a `ClusterSnapshot`: the handler
    awaits nothing and runs in any thread."""
    closes_on_error: bool = False
    """A request that fails as a whole closes the connection, although its response has a place for the error: clients
    do not read it, or take the response for a complete one."""

    limits: tuple[RequestLimit, ...] = ()
    """Limits beside those of the bytes and elements of a request."""

    def serves(self, version: int) -> bool:
        """Whether the version is one that we advertise."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact fields and tags."""
        return self.flexible is not None and version >= self.flexible

    def decode(self, body: memoryview, version: int) -> Any:
        """The request in a frame's body; DecodeError when it is not one.

        Bytes after it are ignored, as Kafka ignores them: librdkafka 2.16 leaves three after a Metadata v12 request
        for all topics.
        """
        if self.read is not None:
            return self.read(body, version)
        return message.decode_prefix(self.request, body, version, self.is_flexible(version))[0]

    def encode(self, response: Any, version: int) -> Sequence[Buffer]:
        """The body of a response."""
        if isinstance(response, EncodedBody):
            return response.body
        if self.write is not None:
            return self.write(response, version)
        return (message.encode(response, version, self.is_flexible(version)),)

    def failure(self, request: Any | None, code: int, text: str, version: int) -> Any | None:
        """The response that tells this error of the whole request, or None when the version has no place for it.

        `request`: None where it could not be decoded, or is answered later. Every field but the error has the default
        that its message gives it, or else 0, "", False or []. So the default of an array decides whether clients see
        null or [] with an error: `= None` is null.
        """
        if request is not None and self.error_response is not None:
            return self.error_response(request, code, text, version)
        return None if self.closes_on_error else error_response(request, self.response, code, text, version)
