"""The rules that make a user name of a certificate's distinguished name: Kafka's `ssl.principal.mapping.rules`.

    RULE:pattern/replacement/[LU] , … , DEFAULT

The first rule whose pattern fits the whole name decides; `DEFAULT` leaves the name as it is. Patterns are RE2's, in
linear time: look-around and references back within a pattern, which Java has, are refused at the start.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"
_PARSER: Final = re.compile(_RULE, re.ASCII)
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_REPLACEMENT: Final = re.compile(r"\\(.)|\$(\d+)|([^\\$]+)|(\$)", re.ASCII | re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}
_MAX_BYTES: Final = 1024 * 1024
"""Memory of a compiled pattern."""


class NoMatchingRule(Exception):
    """No rule makes a name: the client is not let in."""


class PrincipalMapping:
    """The mapping rules of one listener."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        """ValueError if a rule is wrong."""
        found = (match[1] for match in _SPLITTER.finditer(rules.strip()))
        parsed = (_parse(rule) for rule in found)
        self._rules = [rule for rule in parsed if rule is not None]

    def name(self, distinguished_name: str) -> str:
        """The user name, never an empty one; NoMatchingRule if there is none."""
        for rule in self._rules:
            name = rule(distinguished_name)
            if name == "":  # Kafka would let it in as `User:`
                raise NoMatchingRule("a rule of ssl_principal_mapping_rules makes an empty name of the certificate's")
            if name is not None:
                return name
        raise NoMatchingRule("no rule of ssl_principal_mapping_rules fits the certificate's name")


def _parse(rule: str) -> Callable[[str], str | None] | None:
    """One rule; None for the empty one, which Kafka ignores."""
    match = _PARSER.match(rule)
    if match is None or match.end() != len(rule):
        raise ValueError(f"not a rule: {rule!r}; rules are RULE:pattern/replacement/[LU] and DEFAULT")
    if match[1] is not None:
        return str
    if match[2] is None:
        return None
    pattern = _compiled(match[2])
    replacement = _replacement(match[3], pattern.groups, rule)
    case = _CASES[match[4]]

    def apply(name: str) -> str | None:
        return case(_replaced(pattern, replacement, name)) if pattern.fullmatch(name) else None

    return apply


def _compiled(pattern: str) -> Any:
    import re2  # no start without such rules needs it

    options = re2.Options()
    options.max_mem = _MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"not a pattern of RE2: {pattern!r}: {reason}") from None


def _replacement(text: str, groups: int, rule: str) -> Sequence[str | int]:
    """Texts, and numbers of groups. As many digits are taken as there are groups; `$9` is a text if there are fewer."""
    parts: list[str | int] = []
    for escaped, digits, plain, dollar in _REPLACEMENT.findall(text):
        if dollar:
            raise ValueError(f"not a rule: {rule!r}: $ is followed by the number of a group, or written \\$")
        if digits:
            number = digits
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            known = int(number) <= groups
            parts += [int(number) if known else f"${number}", digits[len(number) :]]
        else:
            parts.append(escaped or plain)
    return parts


def _replaced(pattern: Any, replacement: Sequence[str | int], name: str) -> str:
    """Kafka replaces each place where the pattern is found, although it has matched the whole name before."""
    parts, end = [], 0
    for match in pattern.finditer(name):
        parts.append(name[end : match.start()])
        parts += [part if isinstance(part, str) else match.group(part) or "" for part in replacement]
        end = match.end()
    return "".join((*parts, name[end:]))
