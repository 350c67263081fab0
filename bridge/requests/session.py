"""One client connection as an API sees it (`Session`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bridge.security.principal import ANONYMOUS, Principal
from bridge.security.sasl.login import Login
from bridge.storage.append.pace import Pace
from bridge.storage.read.pending_reads import PendingReads
from bridge.telemetry.traffic import (
    UNKNOWN,
    UNKNOWN_CLIENT,
    ClientKind,
    Traffic,
    TrafficTable,
    principal_label,
    software_label,
)

_MAX_CLOSE_ACTIONS = 10_000


class MutationQuota(Protocol):
    """What a connection's client may change of topics (KIP-599)."""

    def count(self, partitions: int, *, strict: bool, waits: bool = True) -> None:
        """So many are to be created or deleted; THROTTLING_QUOTA_EXCEEDED where that is refused."""


@dataclass(slots=True)
class Session:
    """One client connection as an API sees it."""

    id: int
    peer: str
    listener: str
    client_id: str = ""
    client_software: tuple[str, str] = ("", "")
    """Name and version as ApiVersions v3 tells them (KIP-511); never trusted."""
    api_version: int = 0
    """The version of the request that is handled now. A `DeferredResponse` must not read it: the next may run."""
    received_at: float | None = None
    """Loop time at which that request was received: it may have waited behind others of its connection."""

    connected_at: float = 0.0
    """By the loop's time."""

    remaining_response_bytes: Callable[[], int] = lambda: 2**31 - 1
    """Bytes that a response may have now, if it can have fewer: what clients have not read yet stays in memory."""

    reserve_response_bytes: Callable[[int], None] = lambda count: None
    """Take so many of those bytes, for a response that takes time to make; negative, return them."""

    traffic: Traffic = field(default_factory=Traffic, repr=False)
    """Where its requests are counted, with those of clients of its kind."""
    clients: TrafficTable[ClientKind] | None = field(default=None, repr=False)
    """The counts of all clients; None: they are not told apart."""
    by_principal: bool = False
    """Whether they are told apart by principal, too."""

    principal: Principal = ANONYMOUS
    """Whom the connection acts for."""
    login: Login | None = field(default=None, repr=False)
    """Its log-in; None where the listener asks for none."""

    fetch_bytes: int | None = None
    """What the client's quota allows the Fetch that begins now; None: any number."""
    mutations: MutationQuota | None = field(default=None, repr=False)
    """None: changes of topics are not limited."""

    pace: Pace = field(default_factory=Pace, repr=False)
    """Of its Produces."""

    _reads: PendingReads | None = None

    _software: ClientKind = UNKNOWN_CLIENT
    """As what it is counted."""

    def __post_init__(self) -> None:
        self._count_anew()

    @property
    def pending_reads(self) -> PendingReads:
        """Reads that go on for its next Fetch."""
        if self._reads is None:
            self._reads = PendingReads(self.reserve_response_bytes)
            self.on_close(PendingReads, self._reads.close, always=True)  # what they have reserved is all clients'
        return self._reads

    @property
    def has_pending_reads(self) -> bool:
        """Whether reads go on for its next Fetch."""
        return self._reads is not None and len(self._reads) > 0

    close_actions: dict[object, Callable[[], None]] | None = field(default_factory=dict)

    def told_software(self, name: str, version: str) -> None:
        """The client has said what it is. What it says first is what it is counted as."""
        is_first, self.client_software = not any(self.client_software), (name, version)
        if is_first:
            self._software = software_label(name), software_label(version)
            self._count_anew()

    def acts_for(self, principal: Principal) -> None:
        """The client has logged in."""
        self.principal = principal
        if self.by_principal:
            self._count_anew()

    def _count_anew(self) -> None:
        if self.clients is None or self.close_actions is None:
            return
        kind = self._software
        if self.by_principal:
            is_known = self.login is None or self.principal is not ANONYMOUS
            kind = *kind, principal_label(str(self.principal)) if is_known else UNKNOWN
        self.clients.leave(self.traffic)
        self.traffic = self.clients.enter(kind)

    def on_close(self, key: object, action: Callable[[], None], *, always: bool = False) -> bool:
        """Call `action` when the connection is lost, once for each key; False if it is lost, or has too many
        actions. `always`: though it has, since there are few such keys, however much the client asks for."""
        if self.close_actions is None:
            return False
        if not always and len(self.close_actions) >= _MAX_CLOSE_ACTIONS and key not in self.close_actions:
            return False
        self.close_actions[key] = action
        return True

    def off_close(self, key: object) -> None:
        """What was to be done for the key when the connection is lost has been done."""
        if self.close_actions is not None:
            self.close_actions.pop(key, None)

    def closed(self) -> None:
        """The connection is lost."""
        actions, self.close_actions = self.close_actions or {}, None
        if self.clients is not None:
            self.clients.leave(self.traffic)
        for action in actions.values():
            action()

    @property
    def is_librdkafka(self) -> bool:
        """Whether the client is built on librdkafka, as far as it tells."""
        return any("rdkafka" in one or "confluent-kafka" in one for one in self.client_software)

    def count_mutations(self, partitions: int, *, strict_from: int) -> None:
        """So many partitions are created or deleted by the request; THROTTLING_QUOTA_EXCEEDED where a quota refuses it.

        `strict_from`: the version from which on clients know that error.
        """
        if self.mutations is not None:
            self.mutations.count(partitions, strict=self.api_version >= strict_from)

    @property
    def host(self) -> str:
        """The client's address as Kafka shows it: `/10.0.0.1`."""
        return "/" + self.peer.rpartition(":")[0].strip("[]")
