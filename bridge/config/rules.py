"""What a setting may be: the rules in words for the operator and as tests, and the complaints in their names."""

import difflib
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import Field, field, fields
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bridge.config.urls import url_without_secrets
from bridge.errors import SettingsError

_PULSAR_NAME = re.compile(r"[-=:.\w]+", re.ASCII)  # org.apache.pulsar.common.naming.NamedEntity
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Address(NamedTuple):
    """A host and a port, as `host:port` or `[ipv6]:port` says them."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split `host:port`; ValueError when it is anything else."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise ValueError(text)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(text)
        if not host or any(c.isspace() or c in "/@[]" for c in host):
            raise ValueError(text)
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_every_interface(text: str) -> bool:
    """Whether it is an address to listen on, but none to connect to."""
    return Address.parse(text).host in ("0.0.0.0", "::")  # noqa: S104 - it is refused


class Rule(NamedTuple):
    """A rule that a setting must keep: its words for the operator, the test, and why a value does not hold it."""

    allowed: str
    holds: Callable[[Any], bool]
    why: Callable[[Any], str] = lambda value: ""


def parses(parse: Callable[[str], object], text: str) -> bool:
    """Whether `parse` takes the text without a ValueError."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def address(default: str, *, optional: bool = False) -> str:
    """A setting that is `host:port`."""
    allowed = "host:port, the port at most 65535, IPv6 as [host]:port" + (
        ', or "" for the same as listen' if optional else ""
    )
    return field(
        default=default,
        metadata={"rule": Rule(allowed, lambda v: (optional and v == "") or parses(Address.parse, v))},
    )


def integer(default: int, low: int, high: int = INT64_MAX, *, unlimited: bool = False) -> int:
    """A setting that is a whole number in a range, or −1 where `unlimited`."""
    allowed = f"an integer from {low} to {high}" if high != INT64_MAX else f"an integer of at least {low}"
    if unlimited:
        allowed += ", or -1 for no limit"
    return field(
        default=default,
        metadata={"rule": Rule(allowed, lambda v: low <= v <= high or (unlimited and v == -1))},
    )


def seconds(default: float) -> float:
    """A setting that is a duration."""
    # A day is more than any of these timeouts can mean; NaN fails both comparisons.
    return field(
        default=default, metadata={"rule": Rule("seconds, above 0 and at most 86400", lambda v: 0 < v <= 86400)}
    )


def one_of(default: str, *choices: str) -> str:
    """A setting with a few values."""
    allowed = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return field(default=default, metadata={"rule": Rule(allowed, lambda v: v in choices)})


def pulsar_name(default: str) -> str:
    """A setting that names a tenant or namespace."""
    return field(
        default=default,
        metadata={
            "rule": Rule(
                "letters, digits and - = : . _",
                lambda v: _PULSAR_NAME.fullmatch(v) is not None,
                lambda v: "tenant and namespace are two settings" if "/" in v else "",
            )
        },
    )


def _readable(path: str) -> bool:
    return path == "" or (os.path.isfile(path) and os.access(path, os.R_OK))


def why_unreadable(path: str) -> str:
    """Why this process cannot read this file, and what to do."""
    user = f"this process is user {os.geteuid()}"
    try:
        found = os.stat(path)
    except PermissionError:
        return f"{user}, who may not look into its directory"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if not stat.S_ISREG(found.st_mode):
        return "it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no regular file"
    of = f"of user {found.st_uid} and group {found.st_gid}, with the mode {found.st_mode & 0o777:04o}"
    return f"{user}, and it is {of}: chown or chmod it"


_FILE = Rule("a file this process can read", _readable, why_unreadable)


def readable_file() -> str:
    """A setting that is a file, or empty."""
    return field(default="", metadata={"rule": _FILE})


def secret_file() -> str:
    """As `readable_file`, one that others should not read (`secret_files.py`)."""
    return field(default="", metadata={"rule": _FILE, "holds_secret": True})


def is_service_url(url: str) -> bool:
    """Whether it is the address of Pulsar's binary protocol."""
    scheme, _, rest = url.partition("://")
    hosts = rest.removesuffix("/").split(",")
    return scheme in ("pulsar", "pulsar+ssl") and all(parses(Address.parse, h) and h[-2:] != ":0" for h in hosts)


def admin_urls(url: str) -> list[str]:
    """The hosts of an admin URL, each as a URL of its own; ValueError when it is anything else."""
    scheme, _, rest = url.partition("://")
    hosts, slash, path = rest.rstrip("/").partition("/")
    if "," in path or "://" in rest:
        raise ValueError(url)
    urls = [f"{scheme}://{host}{slash}{path}" for host in hosts.split(",")]
    for parts in map(urlsplit, urls):
        if scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or parts.query:
            raise ValueError(url)
    return urls


def is_admin_url(url: str) -> bool:
    """Whether it is the address of Pulsar's REST interface."""
    return parses(admin_urls, url)


def why_no_url(url: str) -> str:
    """What is likely meant by a URL of several hosts, or with more than hosts."""
    rest = url.partition("://")[2]
    if "://" in rest:
        return "the scheme stands once, before the first host"
    return "tenant and namespace are two settings" if "/" in rest.rstrip("/") else ""


def entries(value: str) -> list[str]:
    """What is between commas."""
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def text(default: str, allowed: str, holds: Callable[[str], bool], why: Callable[[str], str] = lambda value: "") -> str:
    """A setting with a rule of its own."""
    return field(default=default, metadata={"rule": Rule(allowed, holds, why)})


def fields_of(section: type) -> "dict[str, Field[Any]]":
    """The settings of a section by name."""
    return {f.name: f for f in fields(section)}


def known_name(name: str, names: Iterable[str], what: str, at: tuple[str, ...] = ()) -> str:
    """The name, if it is one of `names`; else SettingsError with the likeliest one meant, and where it stands."""
    if name in names:
        return name
    label = f"{what}{name}" if what.endswith((".", " ")) else f"{what} [{name}]"
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    everything = f"known are {', '.join(known)}" if len(known) < 20 else "config/bridge.toml lists every setting"
    hint = f"did you mean {close[0]}?" if close else everything
    raise SettingsError(f"unknown {label}; {hint}", at)


def allowed(setting: "Field[Any]") -> str:
    """What a setting may be, in words."""
    rule: Rule | None = setting.metadata.get("rule")
    kinds: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    return rule.allowed if rule else kinds[setting.type]


def _shown(setting: "Field[Any]", value: object) -> str:
    if setting.metadata.get("secret"):
        return "(not shown)"
    if setting.name.endswith("url"):  # perhaps without its scheme, which is what is wrong with it
        scheme, mark, rest = str(value).rpartition("://")
        return toml_value(url_without_secrets(f"{scheme}://{rest}").removeprefix("" if mark else "://"))
    return toml_value(value)


def check_type(section: str, setting: "Field[Any]", value: object) -> None:
    """Raise SettingsError unless the value is of the setting's type."""
    # bool is an int to Python, but `node_id = true` is a mistake.
    wanted = (int, float) if setting.type is float else setting.type
    if not isinstance(value, wanted) or (isinstance(value, bool) and setting.type is not bool):  # type: ignore[arg-type]
        wrong = f"{section}.{setting.name} = {_shown(setting, value)}: must be {allowed(setting)}"
        raise SettingsError(wrong, (*section.split("."), setting.name))


def check_rules(section: str, values: Any) -> None:
    """Raise SettingsError unless every setting of a section holds its rule."""
    for setting in fields(values):
        value = getattr(values, setting.name)
        check_type(section, setting, value)
        rule: Rule | None = setting.metadata.get("rule")
        if rule and not rule.holds(value):
            why = rule.why(value)
            wrong = f"{section}.{setting.name} = {_shown(setting, value)}: must be {rule.allowed}{why and f'; {why}'}"
            raise SettingsError(wrong, (*section.split("."), setting.name))


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    escaped = "".join(_toml_character(c) for c in str(value))
    return f'"{escaped}"'


def _toml_character(character: str) -> str:
    if character in '\\"':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
