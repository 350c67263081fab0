"""The message compiler: what it accepts, what it refuses, and that refusing is cheap."""

import tracemalloc
from contextlib import suppress
from dataclasses import field
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.apis import load
from bridge.kafka.message import (
    DecodeError,
    EncodeError,
    Float64,
    Int16,
    Int32,
    Uint16,
    Uint32,
    decode,
    encode,
    message,
    nullable_since,
    since,
    tag,
    until,
    with_defaults,
)
from bridge.kafka.primitives import MAX_ELEMENTS, read_uvarint, uvarint
from tests.kafka.strategies import messages, plain
from tests.support.effort import examples

APIS = list(load().values())
QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck), database=None)


@message
class Inner:
    number: Int16 = 0


@message
class Sample:
    old: Annotated[Int32, until(1)] = 7
    new: Annotated[str, since(2)] = "new"
    name: Annotated[str | None, nullable_since(1)]
    blob: bytes | None = None
    wide: Uint32 = 0
    port: Uint16 = 0
    share: Float64 = 0.0
    inner: Annotated[Inner | None, since(2)] = None
    numbers: list[Int16] = field(default_factory=list)
    note: Annotated[str | None, tag(3, since=2)] = None
    count: Annotated[Int32, tag(1, since=2)] = 5


def read(data: bytes, version: int = 2) -> Sample:
    return decode(Sample, data, version, version >= 2)


def write(value: Any, version: int = 2) -> bytes:
    return bytes(encode(value, version, version >= 2))


def test_a_message_is_written_as_its_version_says() -> None:
    sample = Sample(old=1, new="n", name="x", numbers=[1, -1])
    numbers = b"\0\0\0\0" + b"\0\0" + bytes(8)
    assert write(sample, 1) == b"\0\0\0\1" + b"\0\1x" + b"\xff\xff\xff\xff" + numbers + b"\0\0\0\2\0\1\xff\xff"
    assert write(sample, 2) == b"\2n" + b"\2x" + b"\0" + numbers + b"\xff" + b"\3\0\1\xff\xff" + b"\0"


def test_what_a_version_lacks_reads_as_its_default() -> None:
    assert read(write(Sample(old=1, new="n", name="x"), 1), 1).new == "new"
    assert read(write(Sample(old=1, new="n", name="x"), 2), 2).old == 7


@QUICK
@given(data=st.data(), version=st.integers(0, 3))
def test_what_is_written_is_read(data: st.DataObject, version: int) -> None:
    if version == 0:
        with pytest.raises(EncodeError):
            write(Sample(name=None), version)
    floats = st.floats(allow_nan=False)
    made = data.draw(st.builds(Sample, name=st.text(max_size=5), share=floats, wide=st.integers(0, 2**32 - 1)))
    again = read(write(made, version), version)
    assert (again.name, again.share, again.wide) == (made.name, made.share, made.wide)


def test_a_nullable_struct_has_a_mark_before_it() -> None:
    made = Sample(name=None, inner=Inner(number=3))
    assert read(write(made)) == made


def test_tags_are_written_in_order_and_only_when_they_say_something() -> None:
    made = Sample(name="x", note="n", count=6)
    assert write(made).endswith(b"\2" + b"\1\4\0\0\0\6" + b"\3\2\2n")
    assert read(write(made)) == made


def test_an_unknown_tag_is_skipped() -> None:
    data = write(Sample(name="x"))[:-1]
    assert read(data + b"\1\x63\3abc") == Sample(name="x")


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\1\x63\x04abc", id="longer than the frame"),
        pytest.param(b"\1\1\5\0\0\0\6\0", id="a known tag with a byte too many"),
        pytest.param(b"\1\1\3\0\0\0", id="a known tag with a byte too few"),
        pytest.param(b"\xff\xff\xff\xff\x07", id="2^31-1 tags"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="a varint of six bytes"),
        pytest.param(b"\x80\x80\x80\x80\x08", id="a varint of 32 bits"),
        pytest.param(b"", id="none"),
    ],
)
def test_tags_that_lie_are_refused(tags: bytes) -> None:
    with pytest.raises(DecodeError):
        read(write(Sample(name="x"))[:-1] + tags)


def test_text_that_is_no_utf8_is_replaced_as_java_does() -> None:
    assert read(write(Sample(name="xy")).replace(b"\3xy", b"\3x\xff")).name == "x�"


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_replaced_in_a_text_can_be_written_again(version: int) -> None:
    """Each byte that is no UTF-8 becomes three."""
    sample = write(Sample(name="?" * 10_922), version)
    read_again = read(sample.replace(b"?", b"\xff"), version)
    assert read_again.name == "�" * 10_922
    assert read(write(read_again, version), version) == read_again
    sound = Sample(name="x" * 32_767)
    assert read(write(sound, version), version).name == sound.name
    with pytest.raises(DecodeError):
        read(write(Sample(name="?" * 10_923), version).replace(b"?", b"\xff"), version)


def test_a_string_has_at_most_32767_bytes() -> None:
    assert read(write(Sample(name="x" * 32767))).name == "x" * 32767
    with pytest.raises(EncodeError):
        write(Sample(name="x" * 32768))
    long = write(Sample(name=""))
    with pytest.raises(DecodeError):
        read(long.replace(b"\4new\1", b"\4new" + uvarint(32769) + b"x" * 32768))


def test_null_is_refused_where_the_version_allows_none() -> None:
    assert read(write(Sample(name=None), 1), 1).name is None
    with pytest.raises(EncodeError):
        write(Sample(name=None), 0)
    with pytest.raises(DecodeError):
        read(write(Sample(name=None), 1), 0)


def test_a_number_out_of_range_cannot_be_written() -> None:
    with pytest.raises(EncodeError):
        write(Sample(name="x", port=65536))


def test_a_field_that_is_not_always_there_needs_a_default() -> None:
    @message
    class Wrong:
        field: Annotated[Int32, since(1)]

    with pytest.raises(TypeError, match="needs a default"):
        encode(Wrong(field=1), 0, False)


@pytest.mark.parametrize("hint", [int, list[str | None], dict[str, str]])
def test_what_kafka_cannot_say_is_refused(hint: Any) -> None:
    wrong: Any = message(type("Wrong", (), {"__annotations__": {"field": hint}, "__module__": __name__}))
    with pytest.raises(TypeError):
        encode(wrong(field=None), 0, False)


def test_a_blank_message_has_kafkas_implicit_values() -> None:
    @message
    class Outer:
        inner: Inner
        inners: list[Inner]
        name: str
        size: Int32

    assert with_defaults(Outer, size=3) == Outer(inner=Inner(), inners=[], name="", size=3)


@given(value=st.integers(0, 2**31 - 1))
def test_varints(value: int) -> None:
    assert read_uvarint(memoryview(uvarint(value) + b"x"), 0) == (value, len(uvarint(value)))


# ---- hostile bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@QUICK
@given(data=st.data())
def test_every_truncation_is_refused(api: Any, data: st.DataObject) -> None:
    version = data.draw(st.integers(api.min_version, api.max_version))
    written = bytes(api_body(api, version, data))
    if api.read is None:
        with pytest.raises(DecodeError, match="left over"):
            decode(api.request, written + b"\0", version, api.is_flexible(version))
    if written:
        with pytest.raises(DecodeError):
            api.decode(memoryview(written)[: data.draw(st.integers(0, len(written) - 1))], version)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@QUICK
@given(data=st.data())
def test_changed_bytes_give_a_message_or_a_decode_error(api: Any, data: st.DataObject) -> None:
    version = data.draw(st.integers(api.min_version, api.max_version))
    written = bytearray(api_body(api, version, data))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(written)))
        written[at : at + data.draw(st.sampled_from([0, 1, 4]))] = data.draw(
            st.sampled_from([b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x07", b"\0", b"\xff\xff"])
            | st.binary(max_size=4)
        )
    with suppress(DecodeError):
        api.decode(memoryview(written), version)


def api_body(api: Any, version: int, data: st.DataObject) -> bytearray:
    return encode(data.draw(messages(api.request, version)), version, api.is_flexible(version))


def _peak(action: Any) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00"])
def test_a_count_that_lies_costs_nothing(count: bytes) -> None:
    metadata = next(api for api in APIS if api.name == "Metadata")

    def attempt() -> None:
        with pytest.raises(DecodeError):
            metadata.decode(memoryview(count + bytes(1000)), 1)

    assert _peak(attempt) < 100_000


def test_a_frame_full_of_empty_elements_is_refused_before_they_are_made() -> None:
    metadata = next(api for api in APIS if api.name == "Metadata")
    count = 4 * MAX_ELEMENTS
    body = memoryview(uvarint(count + 1) + b"\1\0" * count + b"\1\0\0\0")

    def attempt() -> None:
        with pytest.raises(DecodeError, match="elements"):
            metadata.decode(body, 9)

    memory = _peak(attempt)
    assert memory < 100_000


def test_plain_shows_every_field() -> None:
    assert plain(Inner(number=2)) == {"number": 2}


def test_bytes_after_a_request_are_ignored_as_kafka_does() -> None:
    # as librdkafka 2.16 sends it to list all topics: null, false, false, no tags, and three bytes of nothing
    api = {one.name: one for one in APIS}["Metadata"]
    request = api.decode(memoryview(bytes.fromhex("00000000010000")), 12)
    assert (request.topics, request.allow_auto_topic_creation) == (None, False)
