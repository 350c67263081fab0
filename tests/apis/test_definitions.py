"""Every field, type, version and nullability of every message, compared with Kafka's own definitions."""

from typing import Any

import pytest

from bridge.apis import load
from bridge.kafka.schema import Type, fields_of
from bridge.requests import share_states
from bridge.requests.api import Api
from tests.kafka import judge

APIS = load() | {api.key: api for api in share_states.APIS}
CASES = [
    pytest.param(api, cls, f"{api.name}{side}", version, id=f"{api.name}{side}-v{version}")
    for api in APIS.values()
    for side, cls in (("Request", api.request), ("Response", api.response))
    for version in range(api.min_version, api.max_version + 1)
]
_OUR_TAGS = 10_000
"""From this number on tags are ours, between nodes."""
# What no controller or client of ours needs.
LEFT_OUT = {"ApiVersionsResponse": {"zk_migration_ready"}}

Described = list[tuple[str, Any, bool, int | None]]


def _theirs(name: str, fields: list[dict[str, Any]], structs: dict[str, Any], version: int) -> Described:
    result: Described = []
    for field in fields:
        if version not in judge.versions(field["versions"]) or judge.snake(field["name"]) in LEFT_OUT.get(name, ()):
            continue
        base = field["type"].removeprefix("[]")
        inner: Any = base
        if base[0].isupper():
            inner = _theirs(name, field.get("fields") or structs[base]["fields"], structs, version)
        tagged = version in judge.versions(field.get("taggedVersions"))
        result.append(
            (
                judge.snake(field["name"]),
                [inner] if field["type"].startswith("[]") else inner,
                version in judge.versions(field.get("nullableVersions")),
                field["tag"] if tagged else None,
            )
        )
    return result


def _ours(cls: type, version: int) -> Described:
    result: Described = []
    for field in fields_of(cls):
        if field.exists(version) and (field.tag or 0) < _OUR_TAGS:
            # a tagged struct of ours may be None, which means that it is absent, never that it is null
            optional = field.tag is not None and field.type.message is not None
            nullable = field.nullable(version) and not optional
            result.append((field.name, _our_type(field.type, version), nullable, field.tag))
    return result


def _our_type(wire_type: Type, version: int) -> Any:
    if wire_type.message is not None:
        return _ours(wire_type.message, version)
    if wire_type.name == "array" and wire_type.element is not None:
        return [_our_type(wire_type.element, version)]
    return wire_type.name


@pytest.mark.parametrize(("api", "cls", "name", "version"), CASES)
def test_fields_are_kafkas(api: Api, cls: type, name: str, version: int) -> None:
    theirs = judge.definition(name)
    structs = {struct["name"]: struct for struct in theirs.get("commonStructs", ())}
    assert theirs["apiKey"] == api.key
    assert api.is_flexible(version) == (version in judge.versions(theirs["flexibleVersions"]))
    assert _ours(cls, version) == _theirs(name, theirs["fields"], structs, version)


_LITERALS = {"null": None, "true": True, "false": False}


def _defaults(fields: list[dict[str, Any]], cls: type, structs: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(field, Kafka's default, ours) wherever both name one."""
    ours = {field.name: field for field in fields_of(cls)}
    result = []
    for field in fields:
        mine = ours.get(judge.snake(field["name"]))
        if mine is None:
            continue
        if "default" in field and mine.default is not None:
            default = str(field["default"])
            theirs: Any = int(default, 0) if mine.type.code and default.lower() not in _LITERALS else default
            result.append((mine.name, _LITERALS.get(default.lower(), theirs), mine.default()))
        inner = mine.type.message or (mine.type.element.message if mine.type.element else None)
        if inner is not None:
            common = structs.get(field["type"].removeprefix("[]"), {})
            result += _defaults(field.get("fields") or common["fields"], inner, structs)
    return result


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@pytest.mark.parametrize("side", ["request", "response"])
def test_defaults_are_kafkas(api: Api, side: str) -> None:
    definition = judge.definition(f"{api.name}{side.capitalize()}")
    structs = {struct["name"]: struct for struct in definition.get("commonStructs", ())}
    for name, theirs, ours in _defaults(definition["fields"], getattr(api, side), structs):
        assert ours == theirs, name


def test_no_version_is_advertised_that_kafka_does_not_know() -> None:
    for api in APIS.values():
        known = judge.versions(judge.definition(f"{api.name}Request")["validVersions"])
        assert api.max_version in known
        # KIP-896 took the oldest versions of these out of Kafka 4
        assert api.min_version in known or api.name in {"Produce", "Fetch", "ListOffsets", "OffsetCommit"}
