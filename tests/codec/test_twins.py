"""Which twin is taken, and that both are one."""

import importlib
import sys

import pytest

from bridge import codec
from bridge.codec import TWIN, Rebuild, Record, Twin, _python, choose
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord, SettingsError, StartupError
from tests.codec.conftest import native
from tests.codec.fuzz import LARGE, fuzz
from tests.codec.samples import NOW, framed, own, plain, section

COUNT = 4000


@pytest.mark.parametrize("seed", range(2))
def test_the_twins_agree(seed: int) -> None:
    """More of it: `python -m tests.codec.fuzz --count 1000000`."""
    seen, different = fuzz(native(), COUNT, seed)
    assert not different, different[0]
    assert sum(seen.values()) == COUNT
    for kind in ("build_batch: bytes", "build_batch: CorruptEntry", "read_header: BatchHeader",
                 "read_header: CorruptBatch", "encode_payload: Payload", "encode_payload: InvalidRecord",
                 "check_records: Checked", "check_records: InvalidRecord",
                 "encode_plain: Plain", "encode_plain: NoneType",
                 "decode_payload: bytes", "decode_payload: CorruptEntry"):  # fmt: skip
        assert seen[kind] > COUNT // 200, kind


def test_python_can_be_asked_for() -> None:
    assert choose("python") == ("python", _python)


def test_native_can_be_asked_for() -> None:
    twin = native()
    assert choose("native") == choose("auto") == ("native", twin)
    assert twin is not _python


def test_what_is_chosen_is_used() -> None:
    assert choose(TWIN)[1].encode_payload is codec.encode_payload


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SettingsError, match="none of auto, native and python"):
        choose("rust")


def test_asking_for_what_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bridge.codec._native", None)
    monkeypatch.delattr("bridge.codec._native", raising=False)
    with pytest.raises(StartupError, match="install the bridge where cargo is"):
        choose("native")
    assert choose("auto") == ("python", _python)


@pytest.mark.parametrize("form", [memoryview, lambda data: memoryview(bytearray(data)), bytearray])
def test_bytes_in_every_form(codec: Twin, form: type[memoryview]) -> None:
    batch = _python.build_batch([Record(0, NOW, b"key", b"value", [])], own(1))
    payload = codec.encode_payload(form(section(batch)), 1, NOW)
    assert codec.read_header(form(batch)) == _python.read_header(batch)
    assert codec.decode_payload(form(payload.data), 1, own(1)) == batch


@pytest.mark.parametrize("value", [b"v" * LARGE, None])
def test_large_results(codec: Twin, value: bytes | None) -> None:
    """The native twin counts these before it writes them."""
    records = [Record(at, NOW + at, b"\xff" * 1000, value, [(b"\xff" * 7, None)] * 20) for at in range(40)]
    batch = codec.build_batch(records, own(40))
    assert batch == _python.build_batch(records, own(40))
    header = codec.read_header(batch)
    payload = codec.encode_payload(section(batch), 40, header.base_timestamp)
    assert payload == _python.encode_payload(section(batch), 40, header.base_timestamp)
    assert codec.decode_payload(payload.data, 40, own(40)) == batch


@pytest.mark.parametrize("count", [1500, 60_000])
def test_large_results_of_small_records(codec: Twin, count: int) -> None:
    """These are copied, until they are so large that they are counted too."""
    records = [Record(at, NOW, b"key", b"v" * 100, []) for at in range(count)]
    batch = codec.build_batch(records, own(count))
    payload = codec.encode_payload(section(batch), count, NOW)
    assert codec.decode_payload(payload.data, count, own(count)) == batch
    assert codec.read_records(batch) == records


def test_large_damage(codec: Twin) -> None:
    batch = codec.build_batch([Record(0, NOW, None, bytes(LARGE), [])], own(1))
    payload = codec.encode_payload(section(batch), 1, NOW).data
    for cut in (1, LARGE // 2, LARGE):
        with pytest.raises(CorruptBatch):
            codec.read_header(batch[:-cut])
        with pytest.raises(InvalidRecord):
            codec.encode_payload(section(batch)[:-cut], 1, NOW)
        with pytest.raises(CorruptEntry):
            codec.decode_payload(payload[:-cut], 1, own(1))


@pytest.mark.parametrize("text", [b"YWJj=", b"YWJj====", b"YWJj==", b"YQ=", b"Y===", b"YQ==="])
def test_padding_after_whole_groups_is_no_base64(codec: Twin, text: bytes) -> None:
    """Python's own strict decoder lets some of these through."""
    with pytest.raises(CorruptEntry):
        codec.decode_payload(framed(b"\x18\0\x30\x01\x12" + plain(len(text)) + text), 1, own(1))


@pytest.mark.parametrize("offset", [8, -1, 9 + (1 << 31), 1 << 63, -(1 << 70)])
def test_offsets_outside_a_batch(codec: Twin, offset: int) -> None:
    with pytest.raises(CorruptEntry, match="does not fit its batch"):
        codec.build_batch([Record(offset, 0, None, None, [])], Rebuild(9, 1, 0))
    assert codec.build_batch([Record(9 + (1 << 31) - 1, 0, None, None, [])], Rebuild(9, 1, 0))


def test_offsets_at_the_end_of_all(codec: Twin) -> None:
    records = [Record((1 << 63) - 1 + at, 0, None, b"", []) for at in range(2)]
    assert codec.build_batch(records, Rebuild((1 << 63) - 1, 2, 0)) == _python.build_batch(
        records, Rebuild((1 << 63) - 1, 2, 0)
    )


@pytest.mark.parametrize("size", [0, 9, 70_000])
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_checksums_go_on_from_what_stands_before(codec: Twin, form: type[memoryview], size: int) -> None:
    data = b"123456789" + bytes(range(256)) * (size // 256)
    assert codec.crc32c(form(data[:9])) == 0xE3069283  # the check value of CRC-32C (Castagnoli), as in RFC 3720, B.4
    assert codec.crc32c(form(data[5:]), codec.crc32c(form(data[:5]))) == _python.crc32c(data)


def test_the_package_has_both_twins_functions(codec: Twin) -> None:
    ours = importlib.import_module("bridge.codec")
    for name in ("read_header", "encode_payload", "check_records", "decode_payload", "build_batch", "read_records",
                 "crc32c"):  # fmt: skip
        assert callable(getattr(codec, name)) and callable(getattr(ours, name))


RECORD = b"\x0c\0\0\0\x01\x01\0"


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (RECORD * 2, "bytes follow the last record"),
        (b"\x0c\0\0\x06\x01\x01\0", "record 0: its offset delta is not its place"),
        (b"\xff" * 20, "record 0: a varint has more bits than it may"),
        (b"\x0e\0\0\0\x01\x01\0\0", "record 0: its fields end before it does"),
    ],
)
def test_both_say_the_same_of_what_clients_send(codec: Twin, records: bytes, text: str) -> None:
    for read in (codec.check_records, codec.encode_payload):
        with pytest.raises(InvalidRecord, match=f"^{text}$"):
            read(records, 1, NOW)
