"""Which quota counts for a client: Kafka's eight levels, and those of addresses.

From the most specific one on, as Kafka's `DefaultQuotaCallback` looks them up, for each quota by itself:

| the quota is that of                | clients that share what it allows      |
|-------------------------------------|----------------------------------------|
| a user with a client id             | this user's with this client id        |
| a user, default client id           | this user's with the same client id    |
| a user                              | all of this user                       |
| default user with a client id       | a user's with this client id           |
| default user, default client id     | a user's with the same client id       |
| default user                        | all of a user                          |
| a client id                         | all with this client id, of any user   |
| default client id                   | all with the same client id            |
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from bridge.security.quotas.entities import CLIENT_ID, IP, USER, Entity, QuotaKey, address
from bridge.security.sasl.failures import network_of

Owner: TypeAlias = tuple[str, str]
"""Who shares a quota: a user and a client id, each `=` and the name, or nothing."""

_DEFAULT: Final = "*"
_LONGEST_REMEMBERED: Final = 128
_ABSENT: Final = ""


class Limit(NamedTuple):
    """The quota that counts for one client."""

    value: float
    owner: Owner
    """With whom it shares what the limit allows."""


Values: TypeAlias = Mapping[tuple[Entity, QuotaKey], float]


class Limits:
    """All quotas, changed and looked up in a bounded number of steps."""

    def __init__(self, values: Values | None = None) -> None:
        self._of_clients: dict[QuotaKey, dict[Owner, float]] = {}
        self._of_addresses: dict[Owner, float] = {}
        for (entity, key), value in (values or {}).items():
            self.put(entity, key, value)

    def put(self, entity: Entity, key: QuotaKey, value: float) -> None:
        """An entity has this quota from now on."""
        names = dict(entity)
        of_key = self._of_addresses if IP in names else self._of_clients.setdefault(key, {})
        of_key[_owner(names)] = value

    def remove(self, entity: Entity, key: QuotaKey) -> None:
        """It has it no more, if it had."""
        names = dict(entity)
        if IP in names:
            self._of_addresses.pop(_owner(names), None)
            return
        of_key = self._of_clients.get(key, {})
        of_key.pop(_owner(names), None)
        if not of_key:
            self._of_clients.pop(key, None)

    @property
    def of_clients(self) -> bool:
        """Whether there is any of users and client ids."""
        return bool(self._of_clients)

    @property
    def of_addresses(self) -> bool:
        """Whether there is any of addresses."""
        return bool(self._of_addresses)

    def find(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """What counts for a client; None: there is no limit."""
        values = self._of_clients.get(key)
        if values is None:
            return None
        exact_user, exact_client = "=" + user, "=" + client_id
        for of_user in (exact_user, _DEFAULT, _ABSENT):
            for of_client in (exact_client, _DEFAULT, _ABSENT):
                value = values.get((of_user, of_client))
                if value is not None:
                    return Limit(value, (of_user and short(exact_user), of_client and short(exact_client)))
        return None

    def connections(self, host: str) -> Limit | None:
        """How many connections a second an address may open; None: there is no limit."""
        written = address(host) or host
        value = self._of_addresses.get(("=" + written, _ABSENT))
        if value is not None:
            return Limit(value, (written, _ABSENT))
        value = self._of_addresses.get((_DEFAULT, _ABSENT))
        return None if value is None else Limit(value, (network_of(written), _ABSENT))


def short(name: str) -> str:
    """A name to remember: a digest of a long one, as clients may send names of 32 KiB."""
    if len(name) <= _LONGEST_REMEMBERED:
        return name
    return "#" + blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _owner(names: Mapping[str, str | None]) -> Owner:
    return _part(names, IP if IP in names else USER), _part(names, CLIENT_ID)


def _part(names: Mapping[str, str | None], kind: str) -> str:
    if kind not in names:
        return _ABSENT
    name = names[kind]
    return _DEFAULT if name is None else "=" + name
