"""The rules that say in which namespace of Pulsar a client works: what the setting `tenants.rules` may say.

    principal  User:acme-*   -> acme/orders
    principal  User:*/*      -> $1/$2
    user_name  kop-*/*       -> kop-$1/$2
    listener   PARTNERS      -> partners/kafka
    client_id  lab-*         -> lab/kafka

One rule a line, the first that fits decides. An asterisk is one or more characters but slashes; between two slashes
there is one at most, so that what it stands for is never in doubt. `$1` in a namespace is what the first one stood for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.config.rules import INT32_MAX, check_rules, integer
from bridge.errors import SettingsError

_LINE: Final = re.compile(r"(\w+)\s+(.+?)\s+->\s+(\S+)", re.ASCII)
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.=:-]*"
_NAMESPACE: Final = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_TEMPLATE_PART: Final = r"(?:[A-Za-z0-9_]|\$[1-9])(?:[A-Za-z0-9_.=:-]|\$[1-9])*"
_TEMPLATE: Final = re.compile(rf"{_TEMPLATE_PART}/{_TEMPLATE_PART}", re.ASCII)
_ALLOWED_PART: Final = r"(?:[A-Za-z0-9_.=:-]|\*)+"
_ALLOWED: Final = re.compile(rf"{_ALLOWED_PART}/{_ALLOWED_PART}", re.ASCII)
_CAPTURE: Final = re.compile(r"\$([1-9])", re.ASCII)
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
"""What a captured part may be: nothing that is a path, a mark of Pulsar's or KoP's own, or longer than names are."""
_MAX_NAMESPACE: Final = 128
_LIMITS: Final = ("transactions.max_ids", "transactions.max_open")
_PULSARS_OWN: Final = "pulsar/"
"""Pulsar keeps its state in this tenant."""


class RuleKind(StrEnum):
    """What a rule looks at of a client."""

    PRINCIPAL = "principal"
    """Whom it has proven to be."""
    LISTENER = "listener"
    """By which listener it came in."""
    USER_NAME = "user_name"
    """What name it gives with a token of Pulsar's. Nothing proves it: Pulsar's permissions keep such clients apart."""
    CLIENT_ID = "client_id"
    """What it says of itself: no proof of anything."""


@dataclass(frozen=True, slots=True)
class TenantRule:
    """One rule that leads clients to a namespace."""

    kind: RuleKind
    pattern: str
    namespace: str
    """Where the clients that it fits work, perhaps with `$1` for what an asterisk of the pattern stood for."""

    @property
    def captures(self) -> bool:
        """Whether the client's name has a part in the namespace's."""
        return _CAPTURE.search(self.namespace) is not None

    def fit(self, text: str) -> "re.Match[str] | None":
        """Whether the rule is for this client."""
        return _glob(self.pattern).fullmatch(text)

    def made_of(self, match: "re.Match[str]") -> str | None:
        """The namespace of a client that the rule fits; None if its name makes none."""
        captured = match.groups()
        numbers = {int(number) for number in _CAPTURE.findall(self.namespace)}
        if any(_SAFE.fullmatch(captured[number - 1]) is None for number in numbers):
            return None
        return _CAPTURE.sub(lambda found: captured[int(found[1]) - 1], self.namespace)

    def may_lead_to(self, namespace: str, allowed: "Sequence[re.Pattern[str]]") -> bool:
        """Whether some client could be led there; `allowed`: the namespaces that clients' names may have a part in."""
        if self.captures and not any(one.fullmatch(namespace) for one in allowed):
            return False
        parts = enumerate(_CAPTURE.split(self.namespace))
        pattern = "".join("[A-Za-z0-9_.-]+" if index % 2 else re.escape(part) for index, part in parts)
        return re.fullmatch(pattern, namespace, re.ASCII) is not None


def is_namespace(text: str) -> bool:
    """Whether it is `tenant/namespace`, as Pulsar writes it, and clients may work there."""
    return _NAMESPACE.fullmatch(text) is not None and len(text) <= _MAX_NAMESPACE and not text.startswith(_PULSARS_OWN)


def parse_rules(text: str) -> tuple[TenantRule, ...]:
    """The rules; ValueError says what is wrong."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(_rule(line) for line in lines if line and not line.startswith("#"))


def parse_allowed(text: str) -> "tuple[re.Pattern[str], ...]":
    """The namespaces that clients' names may have a part in; ValueError says what is wrong."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    for entry in entries:
        if _ALLOWED.fullmatch(entry) is None:
            raise ValueError(f"{entry!r} is not tenant/namespace, in which * is one or more characters")
    return tuple(_glob(entry) for entry in entries)


def parse_limits(text: str) -> "tuple[tuple[re.Pattern[str], Mapping[str, int]], ...]":
    """What namespaces have in place of the limits of [transactions]; ValueError says what is wrong."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(_limits(line) for line in lines if line and not line.startswith("#"))


def _limits(line: str) -> "tuple[re.Pattern[str], Mapping[str, int]]":
    pattern, *settings = line.split()
    found = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in _LIMITS or not re.fullmatch("[1-9][0-9]{0,9}", value) or int(value) > INT32_MAX:
            raise ValueError(f"{line!r}: {setting!r} is not one of {', '.join(f'{one}=NUMBER' for one in _LIMITS)}")
        found[name.removeprefix("transactions.")] = int(value)
    if _ALLOWED.fullmatch(pattern) is None or not found:
        raise ValueError(
            f"{line!r} is not `tenant/namespace {_LIMITS[0]}=NUMBER`, in which * is one or more characters"
        )
    return _glob(pattern), found


def _rule(line: str) -> TenantRule:
    match = _LINE.fullmatch(line)
    kinds = {kind.value: kind for kind in RuleKind}
    if match is None or match[1] not in kinds:
        raise ValueError(f"{line!r} is not `{'|'.join(kinds)} PATTERN -> tenant/namespace`")
    rule = TenantRule(kinds[match[1]], match[2], match[3])
    if any(part.count("*") > 1 for part in rule.pattern.split("/")):
        raise ValueError(f"{line!r} has two asterisks without a slash between: what each stands for is in doubt")
    if rule.kind is RuleKind.PRINCIPAL and not re.match(r"[A-Za-z]+:.", rule.pattern, re.ASCII):
        raise ValueError(f"{line!r}: a principal is written type:name, such as User:alice")
    captures = {int(number) for number in _CAPTURE.findall(rule.namespace)}
    if _TEMPLATE.fullmatch(rule.namespace) is None or (not captures and not is_namespace(rule.namespace)):
        raise ValueError(f"{line!r}: {rule.namespace!r} is no tenant/namespace that clients can work in")
    if max(captures, default=0) > rule.pattern.count("*"):
        raise ValueError(f"{line!r}: the pattern has no asterisk number {max(captures)}")
    if captures and rule.kind not in (RuleKind.PRINCIPAL, RuleKind.USER_NAME):
        raise ValueError(f"{line!r}: only the name of who has logged in may have a part in its namespace")
    return rule


def _glob(pattern: str) -> "re.Pattern[str]":
    return re.compile("([^/]+)".join(map(re.escape, pattern.split("*"))), re.DOTALL)


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Which clients work in which namespace of Pulsar; without rules all work in that of `[pulsar]`."""

    rules: str = ""
    namespaces: str = ""
    required: bool = True
    max_namespaces: int = integer(100, 1, 10_000)
    limits: str = ""

    def __post_init__(self) -> None:
        check_rules("tenants", self)
        try:
            rules = parse_rules(self.rules)
        except ValueError as error:
            raise SettingsError(f"tenants.rules: {error}") from None
        try:
            allowed = parse_allowed(self.namespaces)
        except ValueError as error:
            raise SettingsError(f"tenants.namespaces: {error}") from None
        try:
            parse_limits(self.limits)
        except ValueError as error:
            raise SettingsError(f"tenants.limits: {error}") from None
        _check_captures(rules, allowed)
        _check_unproven(rules, allowed)

    def limits_of(self, namespace: str) -> Mapping[str, int]:
        """The limits of [transactions] that a namespace has of its own, by their names there."""
        return next((limits for pattern, limits in parse_limits(self.limits) if pattern.fullmatch(namespace)), {})

    @property
    def has_user_names(self) -> bool:
        """Whether a rule goes by the names that clients give to PLAIN."""
        return any(rule.kind is RuleKind.USER_NAME for rule in parse_rules(self.rules))

    def leads_to(self, namespace: str) -> bool:
        """Whether a rule names it. Clients' names never lead to the bridge's state (`security.tenants`)."""
        return any(rule.namespace == namespace for rule in parse_rules(self.rules))

    def check_authorizer(self, authorizer: str) -> None:
        """Raise SettingsError where nothing would keep clients from giving another name."""
        if self.has_user_names and authorizer != "pulsar":
            raise SettingsError(
                "tenants.rules has a rule about user_name, which a client with a token chooses: only with "
                'kafka.authorizer = "pulsar" it has no more rights there than its token'
            )

    def check_listeners(self, without_login: Mapping[str, bool], own: str) -> None:
        """Raise SettingsError where the rules do not go with the listeners, by name: whether it has no log-in."""
        for rule in parse_rules(self.rules):
            text = f"tenants.rules: `{rule.kind} {rule.pattern} -> {rule.namespace}`"
            if rule.kind is RuleKind.LISTENER and not any(rule.fit(name) for name in without_login):
                raise SettingsError(f"{text} is for no listener: there are {', '.join(without_login)}")
            if rule.kind is RuleKind.CLIENT_ID and not any(without_login.values()):
                raise SettingsError(f"{text} is for clients that do not log in, and every listener has log-in")
            if rule.kind is RuleKind.CLIENT_ID and rule.namespace == own:
                raise SettingsError(f"{text} would let every client into the bridge's own namespace")


def _check_captures(rules: Sequence[TenantRule], allowed: "Sequence[re.Pattern[str]]") -> None:
    for rule in rules:
        if rule.captures and not allowed:
            raise SettingsError(
                f"tenants.rules: `{rule.kind} {rule.pattern} -> {rule.namespace}` makes namespaces of clients' names: "
                "say by tenants.namespaces which there are"
            )


def _check_unproven(rules: Sequence[TenantRule], allowed: "Sequence[re.Pattern[str]]") -> None:
    """A client id is chosen by the client: where it leads, no one may be kept apart from others."""
    proven = [rule for rule in rules if rule.kind is not RuleKind.CLIENT_ID]
    for rule in rules:
        if rule.kind is not RuleKind.CLIENT_ID:
            continue
        for other in proven:
            if other.may_lead_to(rule.namespace, allowed):
                raise SettingsError(
                    f"tenants.rules: any client can send the client id {rule.pattern}, and would come to those of "
                    f"`{other.kind} {other.pattern} -> {other.namespace}`: give it a namespace of its own"
                )
