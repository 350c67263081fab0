"""Users, permissions, quotas, groups' configs and KoP's aborted records, of all nodes: what is asked of them, and what
administrators change.

What is asked is answered from memory, also while Pulsar is away. What is changed counts on this node when it is
answered, and on the others as soon as they have read it.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bridge.access.security_store.security_log import SecurityLog, SecurityUnavailable
from bridge.config import PulsarSettings
from bridge.errors import KafkaError, StartupError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.runtime.futures import in_chunks, in_turns, yield_turn
from bridge.security.acls import AccessControlEntry, AclFilter
from bridge.security.authorizer import MAX_ENTRIES, Authorizer
from bridge.security.left_out import LeftOut
from bridge.security.quotas.limits import Limits, Values
from bridge.security.records import Change, Kept, acl_key, acl_record, secret_record
from bridge.security.sasl.credentials import CredentialsUnavailable, Iterations, ScramCredential
from bridge.security.sasl.decoys import Decoys
from bridge.telemetry import log
from bridge.telemetry.metrics import SecurityMetrics

_SECRET_BYTES: Final = 32
_NONE: Final[Mapping[str, str]] = {}

_log = log.get(__name__)


class SecurityStore:
    """See the module; `credentials.ScramCredentials` for log-ins."""

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        pulsar: PulsarSettings,
        metrics: SecurityMetrics,
        super_users: Iterable[str] = (),
        *,
        keeps_users: bool = True,
        authorizes: bool = False,
        allow_if_no_entry: bool = False,
        on_quotas: Callable[[Limits], None] = lambda quotas: None,
    ) -> None:
        """`keeps_users`: whether these are the users that log in; `authorizes`: whether entries decide; `super_users`:
        principals such as `User:admin`; `on_quotas` is called with the quotas whenever there are others."""
        self.keeps_users = keeps_users
        self.authorizes = authorizes
        self._log = SecurityLog(client, admin, pulsar, metrics, self._changed)
        self._super_users = frozenset(super_users)
        self._allow_if_no_entry = allow_if_no_entry
        self._authorizer: Authorizer | None = None
        self._on_quotas = on_quotas

    async def start(self) -> None:
        """Read what is kept; StartupError where the topic cannot be made, or the first record cannot be stored."""
        await self._log.start()
        if self.keeps_users and self._log.is_known and self._log.state.decoy_secret is None:
            try:
                await self._log.append([secret_record(secrets.token_bytes(_SECRET_BYTES))])
            except SecurityUnavailable as error:
                raise StartupError(f"nothing can be stored in {self._log.topic}: {error}") from None

    async def settled(self) -> None:
        """Wait until Pulsar keeps what is stored past all retention."""
        await self._log.settled()

    async def close(self) -> None:
        """Read and write no more."""
        await self._log.close()

    async def problem(self) -> str | None:
        """Readiness: what is kept was read once, to its end."""
        return None if self._log.is_known else f"{self._log.topic} is not read to its end yet"

    async def catch_up(self) -> None:
        """Return when all counts here that any node has answered before; SecurityUnavailable if not in time."""
        await self._log.catch_up()

    async def change(self, records: Sequence[Kept]) -> None:
        """Store users, quotas or configs of groups, or delete them (`records.user_record`, `user_key` and the like).

        SecurityUnavailable if not in time.
        """
        await self._log.append(records)

    # ---- users -------------------------------------------------------------------------------------------------------

    async def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """The credential of a prepared name."""
        if not self._log.is_known:
            raise CredentialsUnavailable("the users are not read yet")
        return self._log.state.credentials.get((mechanism, name))

    def iterations(self, mechanism: str) -> Iterations | None:
        """What the credentials of the mechanism have."""
        return self._log.state.iterations(mechanism)

    @property
    def decoys(self) -> Decoys:
        """Of users that do not exist, the same on all nodes."""
        return _KeptDecoys(self._log)

    def users(self) -> dict[str, list[ScramCredential]]:
        """All credentials by prepared name."""
        found: dict[str, list[ScramCredential]] = {}
        for (_, name), credential in sorted(self._log.state.credentials.items()):
            found.setdefault(name, []).append(credential)
        return dict(sorted(found.items()))

    # ---- permissions -------------------------------------------------------------------------------------------------

    @property
    def authorizer(self) -> Authorizer:
        """By the entries of now; before they are read, super users alone may do anything."""
        if self._authorizer is None:
            known = self._log.is_known
            self._authorizer = Authorizer(
                self._log.state.entries if known else (),
                self._super_users,
                allow_if_no_entry=self._allow_if_no_entry and known,
            )
        return self._authorizer

    def entries(self) -> list[AccessControlEntry]:
        """All entries."""
        return list(self._log.state.entries)

    async def create_entries(self, entries: Iterable[AccessControlEntry]) -> None:
        """Store those that are not there; SecurityUnavailable if not in time."""
        new = [acl_record(entry) for entry in dict.fromkeys(entries) if entry not in self._log.state.entries]
        if new:
            await self._log.append(new)

    async def delete_entries(self, filters: Sequence[AclFilter]) -> list[list[AccessControlEntry]]:
        """Delete what each filter finds, and tell it; SecurityUnavailable if not in time.

        INVALID_REQUEST, and nothing is deleted, where the filters find more than there may be: the same several times.
        """
        entries, gone = self.entries(), dict[AccessControlEntry, None]()
        found: dict[AclFilter, list[AccessControlEntry]] = {}
        left = max(MAX_ENTRIES, len(entries))
        for one in filters:
            if one not in found:
                found[one] = [entry async for chunk in in_chunks(entries) for entry in one.found(chunk)]
                gone.update(dict.fromkeys(found[one]))
                await yield_turn()  # each looks at all entries
            left -= len(found[one])
            if left < 0:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"The filters find more than {MAX_ENTRIES} entries")
        records = [Kept(acl_key(entry)) async for entry in in_turns(gone)]
        if records:
            await self._log.append(records)
        return [found[one] for one in filters]

    # ---- quotas ------------------------------------------------------------------------------------------------------

    def quotas(self) -> Values:
        """All there are."""
        return self._log.state.quotas

    # ---- configs of groups -------------------------------------------------------------------------------------------

    def group_configs(self, namespace: str) -> Mapping[str, Mapping[str, str]]:
        """Those that groups of a namespace have of their own, by group."""
        return {group_id: own for (of, group_id), own in self._log.state.group_configs.items() if of == namespace}

    def configs_of_group(self, namespace: str, group_id: str) -> Mapping[str, str]:
        """Those that a group has of its own."""
        return self._log.state.group_configs.get((namespace, group_id), _NONE)

    @property
    def group_config_count(self) -> int:
        """How many configs groups have of their own, in all namespaces."""
        return self._log.state.group_config_count

    # ---- what KoP aborted --------------------------------------------------------------------------------------------

    def left_out(self, topic_id: str, partition: int) -> LeftOut | None:
        """The offsets of a partition that readers of committed records do not get; `topic_id`: hexadecimal digits."""
        return self._log.state.left_out.get((topic_id, partition))

    @property
    def left_out_runs(self) -> int:
        """How many runs of them are stored, of all partitions."""
        return sum(one.stored_runs for one in self._log.state.left_out.values())

    async def change_left_out(self, records: Sequence[Kept]) -> None:
        """Store what KoP aborted (`records.aborted_records`); SecurityUnavailable if not in time.

        An entry for each record: to read one takes all nodes a millisecond.
        """
        for record in records:
            await self._log.append([record])

    def _changed(self, changes: set[Change]) -> None:
        if Change.ACLS in changes:
            self._authorizer = None
        if Change.QUOTAS in changes:
            self._on_quotas(self._log.state.limits)


class _KeptDecoys(Decoys):
    """By the secret of now: two nodes that start first, at once, each store one, and the later one counts."""

    def __init__(self, log: SecurityLog) -> None:
        self._log = log

    def credential(self, mechanism: str, name: str, iterations: Iterations | None) -> ScramCredential:
        """The decoy of a name."""
        secret = self._log.state.decoy_secret
        if secret is None:
            raise CredentialsUnavailable("the users are not read yet")
        return Decoys(secret).credential(mechanism, name, iterations)
