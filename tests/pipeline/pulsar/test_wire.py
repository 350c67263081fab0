"""Pulsar's frames are written as Pulsar's own description has them, and damaged ones are refused as such."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.pulsar import wire
from bridge.pulsar.pb import PulsarApi_pb2 as pb

U64 = st.integers(0, (1 << 64) - 1)


@given(U64, st.text(), st.binary())
def test_messages_are_protobuf(number: int, text: str, data: bytes) -> None:
    written = wire.message({1: text, 3: number, 16: data, 4: None})
    read = pb.CommandConnect(client_version=text)
    read.ParseFromString(wire.message({1: text, 3: data, 4: number & 0x7FFFFFFF}))
    assert (read.client_version, read.auth_data, read.protocol_version) == (text, data, number & 0x7FFFFFFF)
    assert wire.fields(written) == {1: [text.encode()], 3: [number], 16: [data]}


@given(U64, U64, st.text())
def test_fields_are_found_as_protobuf_wrote_them(ledger: int, entry: int, name: str) -> None:
    position = pb.MessageIdData(ledger_id=ledger, entry_id=entry, partition=-1, ack_set=[-1, 7])
    read = wire.fields(position.SerializeToString())
    assert (wire.number(read, 1), wire.number(read, 2), wire.signed(wire.number(read, 3))) == (ledger, entry, -1)
    assert [wire.signed(each) for each in read[5] if isinstance(each, int)] == [-1, 7]
    command = pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookup_topic=pb.CommandLookupTopic(topic=name, request_id=1))
    assert wire.frame(wire.LOOKUP, {1: name, 2: 1})[8:] == command.SerializeToString()


@given(st.binary(max_size=200))
def test_rubbish_is_damage_and_nothing_else(data: bytes) -> None:
    for read in (wire.split, wire.fields, lambda body: wire.entry({2: [b"\x08\x01\x10\x02"]}, body)):
        try:
            read(data)
        except wire.DAMAGE:
            continue
