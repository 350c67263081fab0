"""The strategies for messages know every type that the message compiler has."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.kafka import schema
from bridge.kafka.message import (
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordBuffers,
    Records,
    Uint16,
    Uint32,
    Uuid,
    decode,
    encode,
    message,
    nullable_since,
    since,
    tag,
)
from bridge.kafka.schema import Type, fields_of
from tests.kafka.strategies import messages, plain, values


@message
class Part:
    number: Int16
    text: Annotated[str | None, nullable_since(1)]


@message
class Everything:
    """A field of each type."""

    flag: bool
    int8: Int8
    int16: Int16
    int32: Int32
    int64: Int64
    uint16: Uint16
    uint32: Uint32
    float64: Float64
    id: Uuid
    text: str | None
    blob: bytes | None
    records: Records | None
    buffers: RecordBuffers | None
    part: Part
    parts: list[Part] | None
    numbers: list[Uint32]
    added: Annotated[Int32, since(1)] = 7
    tagged: Annotated[Part | None, tag(0, since=1)] = None
    names: Annotated[list[str], tag(1, since=1)] = field(default_factory=list)


def compiled_types() -> list[Type]:
    """Every type that a field may be annotated with, but for arrays and structs."""
    aliases = [alias for alias in vars(schema).values() if get_origin(alias) is Annotated]
    annotated = [one for alias in aliases for one in get_args(alias) if isinstance(one, Type)]
    return [*annotated, *schema._PLAIN.values()]


@pytest.mark.parametrize("wire_type", compiled_types(), ids=lambda one: one.name)
def test_there_is_a_strategy_for_every_type(wire_type: Type) -> None:
    values(wire_type, 0).validate()
    assert wire_type in [one.type for one in fields_of(Everything)], "and `Everything` has a field of it"


@pytest.mark.parametrize("version", [0, 1])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_what_is_made_can_be_written_and_read(version: int, data: st.DataObject) -> None:
    made: Any = data.draw(messages(Everything, version))
    written = encode(made, version, version >= 1)
    assert plain(decode(Everything, written, version, version >= 1)) == plain(made)


def test_fields_that_a_version_lacks_keep_their_defaults() -> None:
    @given(made=messages(Everything, 0))
    @settings(max_examples=20, deadline=None, database=None)
    def check(made: Everything) -> None:
        assert (made.added, made.tagged, made.names) == (7, None, [])

    check()
