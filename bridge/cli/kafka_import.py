"""`bridge import kafka`: takes over what is not in records: topics, their configs, ACLs, quotas.

Both sides are asked as any client asks them, a real Kafka and a running bridge. What the bridge has already stays as it
is, unless `--replace` says otherwise. Each item is judged by the bridge alone, so its answer is the reason why one
cannot be taken. Running it again does what is left.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from bridge.cli.import_options import kinds, topics_pattern
from bridge.cli.kafka_endpoint import kafka_errors
from bridge.cli.table import printable, table
from bridge.kafka.error_codes import ErrorCode
from bridge.security.acls import WILDCARD, Operation, PatternType, Permission, ResourceType
from bridge.storage.names import INTERNAL

if TYPE_CHECKING:
    from bridge.pipeline.endpoint import KafkaEndpoint

KINDS: Final = ("topics", "configs", "acls", "quotas", "users")
_HEAD: Final = ("kind", "name", "what", "taken")
_TOPIC: Final = 2
"""A type of resource that has configs."""
_NEWER: Final = {15: "two-phase-commit"}
"""Operations of ACLs that the bridge refuses."""
_ITS_OWN: Final = 1  # DYNAMIC_TOPIC_CONFIG
_SET: Final = 0
_TIMEOUT_MS: Final = 30_000
_NOT_TOLD: Final = "Kafka tells nobody what it keeps of a password: `bridge user add`"


class Item(NamedTuple):
    """One thing that Kafka has."""

    kind: str
    name: str
    what: str
    reason: str = ""
    """Why it is not taken; empty: it is."""
    refused: bool = False
    """Whether the bridge said so."""

    def judged(self, error: int, message: str | None) -> "Item":
        """With what the bridge answered."""
        if not error:
            return self
        known = error in ErrorCode.__members__.values()
        name = ErrorCode(error).name if known else str(error)
        return self._replace(reason=f"{name}: {message}" if message else name, refused=True)

    def beside(self, here: object, value: object) -> "Item":
        """With what the bridge has of it; None: nothing."""
        if here is None:
            return self
        return self._replace(reason=_THERE if here == value else f"it is {here} here")

    @property
    def is_there(self) -> bool:
        """Whether there was nothing to do."""
        return self.reason == _THERE


_THERE: Final = "there already"


def carry(options: argparse.Namespace, out: TextIO) -> int:
    """Tell what is taken and what not, and take it; 1 where the bridge refused some.

    SettingsError where nothing can be asked, StartupError where a side does not answer.
    """
    wanted = kinds(options.what, KINDS)
    with ExitStack() as stack:
        source, target = (stack.enter_context(_endpoint(options, name)) for name in ("from", "bootstrap"))
        topics = _Topics(source, target, options)
        ways: dict[str, Callable[[], Iterable[Item]]] = {
            "topics": topics.create,
            "configs": topics.configure,
            "acls": lambda: _acls(source, target, options.dry_run),
            "quotas": lambda: _quotas(source, target, options),
            "users": lambda: _users(source, target),
        }
        items = [item for kind in wanted for item in ways[kind]()]
    (_tell_json if options.json else _tell)(items, options, out)
    return 1 if any(item.refused for item in items) else 0


def _endpoint(options: argparse.Namespace, name: str) -> Any:
    from bridge.pipeline.endpoint import KafkaEndpoint
    from bridge.pipeline.options import endpoint_options

    return kafka_errors(lambda: KafkaEndpoint(endpoint_options(options, name)))


# ---- topics and their configs ----------------------------------------------------------------------------------------


class _Topics:
    """The source's topics, and what the target has of them."""

    def __init__(self, source: "KafkaEndpoint", target: "KafkaEndpoint", options: argparse.Namespace) -> None:
        self._source, self._target = source, target
        self._dry_run, self._replace = options.dry_run, options.replace
        fits = topics_pattern(options.topics)
        names = sorted(source.topics() - INTERNAL)
        self._names = [name for name in names if fits is None or fits.fullmatch(name)]
        self._there = target.topics()

    def create(self) -> Iterator[Item]:
        """Those that are not there, with the same number of partitions."""
        counts = {name: len(numbers) for name, numbers in self._source.partitions(self._names).items()}
        here = self._target.partitions([name for name in self._names if name in self._there])
        for name in self._names:
            item = Item("topic", name, f"{counts[name]} partitions")
            if name not in here:
                item = item.judged(*self._made(name, counts[name], []))
                if not item.refused and not self._dry_run:
                    self._there.add(name)
            elif len(here[name]) == counts[name]:
                item = item._replace(reason=_THERE)
            else:
                item = item._replace(reason=f"it has {len(here[name])} here: keys would go elsewhere", refused=True)
            yield item

    def configure(self) -> Iterator[Item]:
        """The configs that topics have of their own."""
        here, problems = _configs(self._target, [name for name in self._names if name in self._there])
        theirs, others = _configs(self._source, self._names)
        yield from (*others, *problems)
        unknown = {item.name: item.reason for item in problems}
        for name, configs in theirs.items():
            for config, value in sorted(configs.items()):
                item = Item("config", name, f"{config}={value}").beside(here.get(name, {}).get(config), value)
                if name in unknown:  # whether it has one of its own
                    item = item._replace(reason=unknown[name], refused=True)
                elif not item.reason or (self._replace and not item.is_there):
                    item = item._replace(reason="").judged(*self._set(name, config, value))
                yield item

    def _set(self, name: str, config: str, value: str) -> tuple[int, str | None]:
        from kafka.protocol.admin import IncrementalAlterConfigsRequest

        if name not in self._there:  # without --dry-run it has been made, or could not be
            return self._made(name, 1, [(config, value)]) if self._dry_run else (3, "there is no such topic")
        changed = [(_TOPIC, name, [(config, _SET, value)])]
        answer = self._target.ask(IncrementalAlterConfigsRequest(resources=changed, validate_only=self._dry_run))
        return answer.responses[0].error_code, answer.responses[0].error_message

    def _made(self, name: str, partitions: int, configs: list[tuple[str, str]]) -> tuple[int, str | None]:
        from kafka.protocol.admin import CreateTopicsRequest

        topics: list[tuple[Any, ...]] = [(name, partitions, -1, [], configs)]
        asked = CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=self._dry_run)
        (answer,) = self._target.ask(asked).topics
        return answer.error_code, answer.error_message


def _configs(endpoint: "KafkaEndpoint", names: list[str]) -> tuple[dict[str, dict[str, str]], list[Item]]:
    """What each topic has of its own, and those that were refused."""
    from kafka.protocol.admin import DescribeConfigsRequest

    found: dict[str, dict[str, str]] = {}
    refused: list[Item] = []
    if not names:
        return found, refused
    asked = DescribeConfigsRequest(resources=[(_TOPIC, name, None) for name in names], min_version=1)
    for one in endpoint.ask(asked).results:
        if one.error_code:
            refused.append(Item("config", one.resource_name, "").judged(one.error_code, one.error_message))
            continue
        found[one.resource_name] = {
            config.name: config.value
            for config in one.configs
            if config.config_source == _ITS_OWN and config.value is not None
        }
    return found, refused


# ---- ACLs, quotas, users ---------------------------------------------------------------------------------------------

_NO_ACLS: Final = ErrorCode.SECURITY_DISABLED.name
_Acl = tuple[int, str, int, str, str, int, int]
"""Resource and its name, pattern, principal, host, operation, permission."""


def _acls(source: "KafkaEndpoint", target: "KafkaEndpoint", dry_run: bool) -> Iterator[Item]:
    from kafka.protocol.admin import CreateAclsRequest

    theirs, problem = _described_acls(source)
    if problem:
        yield Item("acl", "", "", f"Kafka: {problem}", refused=not problem.startswith(_NO_ACLS))
        return
    ours, problem = _described_acls(target)
    missing = [acl for acl in sorted(theirs) if acl not in ours]
    for acl in sorted(theirs & ours):
        yield _acl_item(acl)._replace(reason=_THERE)
    if problem:
        yield from (_acl_item(acl)._replace(reason=problem, refused=True) for acl in missing)
    elif dry_run:
        yield from map(_acl_item, missing)
    elif missing:
        results = target.ask(CreateAclsRequest(creations=missing)).results
        for acl, result in zip(missing, results, strict=True):
            yield _acl_item(acl).judged(result.error_code, result.error_message)


def _described_acls(endpoint: "KafkaEndpoint") -> tuple[set[_Acl], str]:
    """All of a side's, or why they cannot be told."""
    from kafka.protocol.admin import DescribeAclsRequest

    every = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY, resource_name_filter=None, pattern_type_filter=PatternType.ANY,
        principal_filter=None, host_filter=None, operation=Operation.ANY, permission_type=Permission.ANY,
    )  # fmt: skip
    answer = endpoint.ask(every)
    if answer.error_code:
        return set(), Item("", "", "").judged(answer.error_code, answer.error_message).reason
    found: set[_Acl] = set()
    for one in answer.resources:
        of = one.resource_type, one.resource_name, one.pattern_type
        found |= {(*of, acl.principal, acl.host, acl.operation, acl.permission_type) for acl in one.acls}
    return found, ""


def _acl_item(acl: _Acl) -> Item:
    resource, name, pattern, principal, host, operation, permission = acl
    of = f"{_word(ResourceType, resource)} {name}{'*' if pattern == PatternType.PREFIXED else ''}"
    may = "may not" if permission == Permission.DENY else "may"
    at = "" if host == WILDCARD else f" from {host}"
    return Item("acl", of, f"{principal} {may} {_word(Operation, operation)}{at}")


def _word(kind: type[IntEnum], number: int) -> str:
    """As the field writes it; what the bridge does not know as its number."""
    known = {one.value: one.name.lower().replace("_", "-") for one in kind}
    return (_NEWER | known).get(number, str(number))


_Entity = tuple[tuple[str, str | None], ...]


def _quotas(source: "KafkaEndpoint", target: "KafkaEndpoint", options: argparse.Namespace) -> Iterator[Item]:
    from kafka.protocol.admin import AlterClientQuotasRequest

    here, problems = _described_quotas(target)
    theirs, others = _described_quotas(source)
    yield from (*others, *problems)
    for (entity, key), value in sorted(theirs.items(), key=repr):
        of = ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
        item = Item("quota", of, f"{key}={value:g}").beside(here.get((entity, key)), value)
        if problems:  # whether there is one is not known
            item = item._replace(reason=problems[0].reason, refused=True)
        elif not item.reason or (options.replace and not item.is_there):
            asked = AlterClientQuotasRequest(
                entries=[(list(entity), [(key, value, False)])], validate_only=options.dry_run
            )
            (answer,) = target.ask(asked).entries
            item = item._replace(reason="").judged(answer.error_code, answer.error_message)
        yield item


def _described_quotas(endpoint: "KafkaEndpoint") -> tuple[dict[tuple[_Entity, str], float], list[Item]]:
    """All of a side's, and why they are not told."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    answer = endpoint.ask(DescribeClientQuotasRequest(components=[], strict=False))
    found: dict[tuple[_Entity, str], float] = {}
    if answer.error_code:
        return found, [Item("quota", "", "").judged(answer.error_code, answer.error_message)]
    for one in answer.entries or ():
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in one.entity))
        found |= {(entity, value.key): value.value for value in one.values}
    return found, []


def _users(source: "KafkaEndpoint", target: "KafkaEndpoint") -> Iterator[Item]:
    """Each that logs in by SCRAM: Kafka keeps what is made of a password, and tells nobody."""
    here, problems = _scram_users(target)
    theirs, others = _scram_users(source)
    yield from (*others, *problems)
    for user in sorted(theirs):
        yield Item("user", user, "SCRAM", _THERE if user in here else _NOT_TOLD)


def _scram_users(endpoint: "KafkaEndpoint") -> tuple[set[str], list[Item]]:
    """All of a side's, and why they are not told."""
    from kafka.protocol.admin import DescribeUserScramCredentialsRequest

    answer = endpoint.ask(DescribeUserScramCredentialsRequest(users=None))
    if answer.error_code:
        return set(), [Item("user", "", "").judged(answer.error_code, answer.error_message)]
    return {one.user for one in answer.results if not one.error_code}, []


# ---- what is told ----------------------------------------------------------------------------------------------------


def _tell(items: list[Item], options: argparse.Namespace, out: TextIO) -> None:
    cells = [(item.kind, printable(item.name), printable(item.what), printable(item.reason) or "yes") for item in items]
    print(*table(_HEAD, cells), sep="\n", file=out)
    taken = sum(not item.reason for item in items)
    there = sum(item.is_there for item in items)
    word = "would take" if options.dry_run else "taken"
    print(f"{word}: {taken}, there already: {there}, not: {len(items) - taken - there}", file=out)


def _tell_json(items: list[Item], options: argparse.Namespace, out: TextIO) -> None:
    told = {
        "dry_run": options.dry_run,
        "items": [
            {"kind": item.kind, "name": item.name, "what": item.what, "taken": not item.reason, "reason": item.reason}
            for item in items
        ],
    }
    print(json.dumps(told, indent=1), file=out)
