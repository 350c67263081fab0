"""Kafka's own message definitions, and kafka-python's codec for them: the judges of our messages.

Both come with kafka-python; its traps for a server are avoided here (the compiled functions are called directly). The
definitions that it lacks are in the jar of Kafka's own client.
"""

import copy
import functools
import json
import re
import warnings
import zipfile
from importlib import import_module, resources
from typing import Any, cast

from tests.support.java import definitions_jar

with warnings.catch_warnings():  # it loads its definitions by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    _CODECS = import_module("kafka.protocol.schemas.fields.codecs")
    _MODULES = [import_module(f"kafka.protocol.{name}") for name in ("admin", "consumer", "metadata", "producer")]


@functools.cache
def definition(name: str) -> dict[str, Any]:
    """Kafka's JSON definition, such as `MetadataRequest`."""
    own = resources.files("kafka.protocol.schemas.resources").joinpath(f"{name}.json")
    return _parsed(own.read_text("utf-8") if own.is_file() else _in_the_jar()[name])


def _parsed(text: str) -> dict[str, Any]:
    return dict(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)))


@functools.cache
def _in_the_jar() -> dict[str, str]:
    with zipfile.ZipFile(definitions_jar()) as jar:
        paths = [path for path in jar.namelist() if path.startswith("common/message/") and path.endswith(".json")]
        return {path.rpartition("/")[2].removesuffix(".json"): jar.read(path).decode() for path in paths}


def served_by_brokers() -> dict[str, int]:
    """The APIs that brokers of this Kafka have, with the last version of each."""
    requests = [_parsed(text) for name, text in _in_the_jar().items() if name.endswith("Request")]
    return {
        one["name"].removesuffix("Request"): versions(one["validVersions"])[-1]
        for one in requests
        if "broker" in one.get("listeners", ()) and one["validVersions"] != "none"
    }


def versions(text: str | None) -> range:
    """Kafka's way to write a range of versions."""
    if not text or text == "none":
        return range(0)
    first, dash, last = text.partition("-")
    if text.endswith("+"):
        return range(int(text[:-1]), 0x8000)
    return range(int(first), int(last if dash else first) + 1)


def snake(name: str) -> str:
    """`ThrottleTimeMs` as `throttle_time_ms`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@functools.cache
def _class(name: str) -> Any:
    for module in _MODULES:
        found = getattr(module, name, None)
        if found is not None:
            return found
    return _made(name)


def _made(name: str) -> Any:
    """A class as kafka-python makes them, of a definition that it does not have."""
    messages, data, loading = (
        cast(Any, import_module(f"kafka.protocol.{module}"))
        for module in ("api_message", "api_data", "schemas.load_json")
    )
    json_of = copy.deepcopy(definition(name))
    loading._resolve_common_structs(
        json_of["fields"], {one["name"]: one["fields"] for one in json_of.get("commonStructs", ())}
    )
    load, data.load_json = data.load_json, lambda *_, **__: json_of
    try:
        return type(messages.ApiMessage)(name, (messages.ApiMessage,), {})
    finally:
        data.load_json = load


def decode(name: str, data: bytes, version: int) -> Any:
    """What kafka-python reads."""
    cls = _class(name)
    flexible = cls.flexible_version_q(version)
    read = cls._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=cls[None])
    result, end = read(memoryview(data), 0)
    assert end == len(data)
    return result


def encode(name: str, value: Any, version: int) -> bytes:
    """What kafka-python writes."""
    cls = _class(name)
    flexible = cls.flexible_version_q(version)
    with _CODECS.EncodeBufferPool.acquire() as out:
        cls._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)(value, out)
        return bytes(out.result())
