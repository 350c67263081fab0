"""What is kept in Pulsar of users, permissions, quotas, groups' configs and KoP's aborted records: keyed records, and
what these make.

A key is a kind and a JSON array of what the record is about; the kind is before the first colon:

    user:["SCRAM-SHA-512","alice"]
    acl:[2,"orders",3,"User:alice","*",3,3]
    quota:["producer_byte_rate",[["user","alice"]]]
    config:["public/default","orders","share.auto.offset.reset"]
    aborted:["6ba7b8109dad41d1950700c04fd430c8",3,0]
    secret:["decoys"]

A value is a JSON object with a format level. No value deletes the key. The last record of a key counts.

A record of a kind or level that is not known here is one of a newer bridge: it is kept apart, by its key. What it says
does not count, with one exception: an entry that denies something counts at any level, as its key says it all.
"""

import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from bridge.security import left_out
from bridge.security.acls import AccessControlEntry, InvalidAcl, Permission, valid_entry
from bridge.security.left_out import LeftOut, Run
from bridge.security.quotas.entities import Entity, InvalidQuota, QuotaKey, checked_entity, checked_key
from bridge.security.quotas.limits import Limits
from bridge.security.sasl.credentials import Iterations, ScramCredential, iterations_of
from bridge.security.sasl.decoys import MIN_SECRET_BYTES

LEVEL: Final = 1
MARKER: Final = "marker"
"""A key that says nothing: who writes it and reads it back has read all that was stored before."""
_USER: Final = "user"
_ACL: Final = "acl"
_QUOTA: Final = "quota"
_CONFIG: Final = "config"
_ABORTED: Final = "aborted"
_DECOYS: Final = 'secret:["decoys"]'


class Kept(NamedTuple):
    """A record to be stored: its key, and its value or None to delete the key."""

    key: str
    value: bytes | None = None

    def __repr__(self) -> str:
        """Without the value, which may be a secret."""
        return f"Kept({self.key!r}, {'deleted' if self.value is None else f'{len(self.value)} bytes'})"


class _NotUnderstood(ValueError):
    """A record that a newer bridge has written, or none; the text names nothing of the value."""


class Change(Enum):
    """What a record of the security topic is about."""

    NOTHING = auto()
    USERS = auto()
    ACLS = auto()
    QUOTAS = auto()


def user_record(name: str, credential: ScramCredential) -> Kept:
    """A user has this credential; `name` is prepared."""
    fields = {
        "level": LEVEL,
        "iterations": credential.iterations,
        "salt": b64encode(credential.salt).decode(),
        "stored_key": b64encode(credential.stored_key).decode(),
        "server_key": b64encode(credential.server_key).decode(),
    }
    return Kept(user_key(credential.mechanism, name), _json(fields).encode())


def user_key(mechanism: str, name: str) -> str:
    """The key of a credential."""
    return f"{_USER}:{_json((mechanism, name))}"


def acl_record(entry: AccessControlEntry) -> Kept:
    """There is this entry."""
    return Kept(acl_key(entry), _json({"level": LEVEL}).encode())


def acl_key(entry: AccessControlEntry) -> str:
    """The key of an entry: all of it."""
    return f"{_ACL}:{_json(entry)}"


def quota_record(entity: Entity, key: QuotaKey, value: float) -> Kept:
    """An entity has this quota."""
    return Kept(quota_key(entity, key), _json({"level": LEVEL, "value": value}).encode())


def quota_key(entity: Entity, key: QuotaKey) -> str:
    """The key of one quota of an entity."""
    return f"{_QUOTA}:{_json((key, entity))}"


def config_record(namespace: str, group_id: str, name: str, value: str) -> Kept:
    """A group of a namespace has this config."""
    return Kept(config_key(namespace, group_id, name), _json({"level": LEVEL, "value": value}).encode())


def config_key(namespace: str, group_id: str, name: str) -> str:
    """The key of one config of a group."""
    return f"{_CONFIG}:{_json((namespace, group_id, name))}"


def aborted_records(topic_id: str, partition: int, runs: Sequence[Run], stored: int = 0) -> list[Kept]:
    """What KoP aborted in a partition, at these merged runs of offsets; `stored`: how many records there are of it.

    `topic_id`: in hexadecimal digits.
    """
    parts = [runs[at : at + left_out.MAX_RUNS] for at in range(0, len(runs), left_out.MAX_RUNS)]
    records = [
        Kept(aborted_key(topic_id, partition, at), _json({"level": LEVEL, "runs": left_out.encode(part)}).encode())
        for at, part in enumerate(parts)
    ]
    return [*records, *(Kept(aborted_key(topic_id, partition, at)) for at in range(len(parts), stored))]


def aborted_key(topic_id: str, partition: int, part: int) -> str:
    """The key of one part of what KoP aborted in a partition."""
    return f"{_ABORTED}:{_json((topic_id, partition, part))}"


def secret_record(secret: bytes) -> Kept:
    """The secret of decoys, the same on all nodes."""
    return Kept(_DECOYS, _json({"level": LEVEL, "secret": b64encode(secret).decode()}).encode())


_CHANGES: Final = {_USER: Change.USERS, _ACL: Change.ACLS, _QUOTA: Change.QUOTAS}


class SecurityState:
    """The users, permissions, quotas, groups' configs and aborted records that the records read so far make."""

    def __init__(self) -> None:
        self.credentials: dict[tuple[str, str], ScramCredential] = {}
        """By mechanism and name."""
        self.entries: dict[AccessControlEntry, None] = {}
        self.quotas: dict[tuple[Entity, QuotaKey], float] = {}
        self.limits = Limits()
        """The same, to be looked up."""
        self.group_configs: dict[tuple[str, str], dict[str, str]] = {}
        """By namespace and group: values by name, as they were given."""
        self.left_out: dict[tuple[str, int], LeftOut] = {}
        """By topic id, in hexadecimal digits, and partition: what KoP aborted there."""
        self.decoy_secret: bytes | None = None
        self.unknown: dict[str, str] = {}
        """The keys whose last value is not understood here, and why."""
        self._iterations: dict[str, Iterations] | None = None

    @property
    def live_records(self) -> int:
        """How many keys have a value, about."""
        aborted = sum(len(one.parts) for one in self.left_out.values())
        of_groups = self.group_config_count
        return len(self.credentials) + len(self.entries) + len(self.quotas) + of_groups + aborted + len(self.unknown)

    @property
    def group_config_count(self) -> int:
        """How many configs groups have of their own."""
        return sum(map(len, self.group_configs.values()))

    def differences(self, former: "SecurityState") -> Iterator[tuple[str, str] | None]:
        """The keys that have another value than they had, and whether they were stored or deleted; None for each other.

        As both states are now. What is made of it may take turns with others: 20,000 users take 70 ms.
        """
        pairs: list[tuple[Callable[[Any], str], dict[Any, Any], dict[Any, Any]]] = [
            (lambda user: user_key(*user), former.credentials.copy(), self.credentials.copy()),
            (acl_key, former.entries.copy(), self.entries.copy()),
            (lambda quota: quota_key(*quota), former.quotas.copy(), self.quotas.copy()),
            (lambda config: config_key(*config), former._configs(), self._configs()),
            (lambda aborted: aborted_key(*aborted), former._aborted(), self._aborted()),
            (str, {_DECOYS: former.decoy_secret}, {_DECOYS: self.decoy_secret}),
            (str, former.unknown.copy(), self.unknown.copy()),
        ]
        return (difference for key_of, before, after in pairs for difference in _differences(key_of, before, after))

    def iterations(self, mechanism: str) -> Iterations | None:
        """What the credentials of the mechanism have."""
        if self._iterations is None:
            self._iterations = iterations_of(self.credentials.values())
        return self._iterations.get(mechanism)

    def apply(self, key: str, value: bytes | None) -> Change:
        """Take the next record; where it is not understood, its key is in `unknown` afterwards."""
        kind = key.partition(":")[0]
        if kind == MARKER:
            return Change.NOTHING
        self.unknown.pop(key, None)
        try:
            if kind == _USER:
                self._apply_user(key, value)
            elif kind == _ACL:
                self._apply_acl(key, value)
            elif kind == _QUOTA:
                self._apply_quota(key, value)
            elif kind == _CONFIG:
                self._apply_config(key, value)
            elif kind == _ABORTED:
                self._apply_aborted(key, value)
            elif key == _DECOYS:
                self.decoy_secret = None if value is None else _secret(value)
            else:
                raise _NotUnderstood("its kind is not known")
        except _NotUnderstood as error:
            if value is not None:
                self.unknown[key] = str(error)
        return _CHANGES.get(kind, Change.NOTHING)

    def _apply_user(self, key: str, value: bytes | None) -> None:
        match _identity(key):
            case [str(mechanism), str(name)] if key == user_key(mechanism, name):
                self._iterations = None
                self.credentials.pop((mechanism, name), None)
                if value is not None:
                    self.credentials[mechanism, name] = _credential(mechanism, value)
            case _:
                raise _NotUnderstood("its key names no user")

    def _apply_acl(self, key: str, value: bytes | None) -> None:
        try:
            entry = valid_entry(*_identity(key))
        except (InvalidAcl, TypeError, AttributeError):
            raise _NotUnderstood("its key is no access control entry") from None
        if key != acl_key(entry):
            raise _NotUnderstood("its key is written in another way")
        self.entries.pop(entry, None)
        if value is None:
            return
        if entry.permission is Permission.DENY:
            self.entries[entry] = None
        _fields(value)
        self.entries[entry] = None

    def _apply_quota(self, key: str, value: bytes | None) -> None:
        try:
            name, parts = _identity(key)
            entity, known = checked_entity((kind, _name(one)) for kind, one in parts), QuotaKey(name)
        except (InvalidQuota, ValueError, TypeError):
            raise _NotUnderstood("its key names no quota") from None
        if key != quota_key(entity, known):
            raise _NotUnderstood("its key is written in another way")
        self.quotas.pop((entity, known), None)
        self.limits.remove(entity, known)
        if value is not None:
            limit = self.quotas[entity, known] = _limit(entity, known, value)
            self.limits.put(entity, known, limit)

    def _apply_config(self, key: str, value: bytes | None) -> None:
        match _identity(key):
            case [str(namespace), str(group_id), str(name)] if key == config_key(namespace, group_id, name):
                configs = self.group_configs.setdefault((namespace, group_id), {})
                configs.pop(name, None)
                try:
                    if value is not None:
                        configs[name] = _config(value)
                finally:
                    if not configs:
                        del self.group_configs[namespace, group_id]
            case _:
                raise _NotUnderstood("its key names no group's config")

    def _apply_aborted(self, key: str, value: bytes | None) -> None:
        match _identity(key):
            case [str(topic_id), int(partition), int(part)] if key == aborted_key(topic_id, int(partition), int(part)):
                parts = dict(self.left_out.get((topic_id, partition), LeftOut()).parts)
                if value is None:
                    parts.pop(part, None)
                else:
                    parts[part] = _bounds(value)  # what cannot be read makes nothing visible: the former counts
                self.left_out[topic_id, partition] = LeftOut(parts)
                if not parts:
                    del self.left_out[topic_id, partition]
            case _:
                raise _NotUnderstood("its key names no part of a partition")

    def _aborted(self) -> dict[tuple[str, int, int], "array[int]"]:
        """Part by part."""
        return {(*of, part): bounds for of, known in self.left_out.items() for part, bounds in known.parts.items()}

    def _configs(self) -> dict[tuple[str, str, str], str]:
        """One by one."""
        return {(*of, name): value for of, own in self.group_configs.items() for name, value in own.items()}


def _differences(
    key_of: Callable[[Any], str], before: dict[Any, Any], after: dict[Any, Any]
) -> Iterator[tuple[str, str] | None]:
    for one in before:
        if one not in after:
            yield key_of(one), "deleted"
        else:
            yield None if before[one] == after[one] else (key_of(one), "stored")
    for one in after:
        yield None if one in before else (key_of(one), "stored")


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))


def _identity(key: str) -> Sequence[Any]:
    try:
        found = json.loads(key.partition(":")[2])
        json.dumps(found, ensure_ascii=False).encode()  # JSON may have half a surrogate pair, which no message can
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise _NotUnderstood("its key is no JSON array")
    return found


def _fields(value: bytes) -> dict[str, Any]:
    """What a value of this level says."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _NotUnderstood("its value is no JSON object")
    if found.get("level") != LEVEL:
        raise _NotUnderstood("its format level is not known")
    return found


def _credential(mechanism: str, value: bytes) -> ScramCredential:
    fields = _fields(value)
    try:
        salt, stored, server = (b64decode(fields[part], validate=True) for part in ("salt", "stored_key", "server_key"))
        iterations = fields["iterations"]
        if type(iterations) is not int:
            raise ValueError
        return ScramCredential(mechanism, salt, stored, server, iterations)
    except (ValueError, KeyError, TypeError):
        raise _NotUnderstood("its value is no credential") from None


def _name(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(value)


def _limit(entity: Entity, key: QuotaKey, value: bytes) -> float:
    limit = _fields(value).get("value")
    if not isinstance(limit, int | float) or isinstance(limit, bool):
        raise _NotUnderstood("its value is no quota")
    try:
        checked_key(entity, key, limit)
        return float(limit)
    except (InvalidQuota, OverflowError):
        raise _NotUnderstood("its value is no quota") from None


def _config(value: bytes) -> str:
    config = _fields(value).get("value")
    if not isinstance(config, str):
        raise _NotUnderstood("its value is no config")
    return config


def _bounds(value: bytes) -> "array[int]":
    bounds = left_out.decode(_fields(value).get("runs"))
    if bounds is None:
        raise _NotUnderstood("its value is no list of offsets")
    return bounds


def _secret(value: bytes) -> bytes:
    try:
        secret = b64decode(_fields(value)["secret"], validate=True)
    except (ValueError, KeyError, TypeError):
        secret = b""
    if len(secret) < MIN_SECRET_BYTES:
        raise _NotUnderstood("its value is no secret")
    return secret
