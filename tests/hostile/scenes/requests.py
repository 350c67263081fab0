"""Bytes that are no requests, or bad ones: each is refused, closed or answered, and a good one after it is served."""

from __future__ import annotations

import random
import secrets
import struct
import time
from collections import Counter
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, NewTopic

from bridge.codec.compression import KafkaCodec, compress_kafka
from tests.faults.processes import let_pass
from tests.faults.topics import create
from tests.fuzz import mutations, wire
from tests.fuzz.inputs import BATCHES, NAMES, NOT_KAFKA, with_records
from tests.hostile.scene import Seen, Target, again

_REFUSED = {2, 10, 32, 43, 53, 76, 87}
"""Codes for a batch of records that is not taken."""
_LENGTHS = {"negative", "zero", "smallest", "largest", "100 MiB + 1"}
_LONGEST = 10.0


def _all_close(target: Target, frames: Iterable[bytes]) -> Seen:
    sent, closed = 0, 0
    samples = list(frames)
    for _ in again(target):
        for one in samples:
            sent += 1
            closed += wire.ask(target.plaintext, one) is None
    return Seen(f"{closed:,} of {sent:,} closed", closed == sent)


def lengths(target: Target) -> Seen:
    """Lengths that no request may have."""
    return _all_close(target, (NOT_KAFKA[kind] for kind in _LENGTHS))


def other_protocols(target: Target) -> Seen:
    """HTTP, SSH and TLS."""
    return _all_close(target, (NOT_KAFKA[kind] for kind in NOT_KAFKA.keys() - _LENGTHS))


def lying_counts(target: Target) -> Seen:
    """Arrays that claim more than there is."""
    return _all_close(
        target,
        (
            wire.framed(
                wire.header(key, version, flexible=False)
                + (b"" if key == 3 else struct.pack(">i", -1))
                + struct.pack(">i", count)
                + bytes(16)
            )
            for key, version in ((3, 1), (2, 1))
            for count in (-2, 1 << 30, (1 << 31) - 1)
        ),
    )


def unknown_apis(target: Target) -> Seen:
    """APIs that there are not, and a version of ApiVersions from the future."""
    seen = _all_close(
        target,
        (wire.framed(wire.header(key, 0, flexible=False) + bytes(20)) for key in (-1, 4, 999, 32767)),
    )
    answer = wire.ask(target.plaintext, wire.framed(wire.header(18, 99, flexible=True) + bytes(8)))
    told = answer is not None and struct.unpack_from(">ih", answer) == (1, 35)
    return Seen(f"{seen.text}; ApiVersions v99: {'35 in v0' if told else answer!r}", seen.as_required and told)


def names(target: Target) -> Seen:
    """Names that would lead elsewhere, written to and asked for."""
    codes: Counter[int | None] = Counter()
    for _ in again(target):
        for name in NAMES:
            answer = wire.ask(target.plaintext, wire.produce(name, wire.batch()))
            codes[None if answer is None else wire.produce_answer(answer)[0]] += 1
    return Seen(_told(codes), codes.keys() <= {3, 17, None})


def damaged_batches(target: Target) -> Seen:
    """Every kind of damaged batch; then the log's end is where it was."""
    topic = f"damaged-{secrets.token_hex(3)}"
    create(target.plaintext, topic)
    codes: Counter[int | None] = Counter()
    damaged = [make() for make in BATCHES.values()]
    for _ in again(target):
        for one in damaged:
            answer = wire.ask(target.plaintext, wire.produce(topic.encode(), one))
            codes[None if answer is None else wire.produce_answer(answer)[0]] += 1
    answer = wire.ask(target.plaintext, wire.produce(topic.encode(), wire.batch()))
    end = None if answer is None else wire.produce_answer(answer)[1]
    refused = codes.keys() <= _REFUSED | {None} and end == 0
    return Seen(f"{len(damaged)} kinds: {_told(codes)}; first sound record at offset {end}", refused)


def bombs(target: Target) -> Seen:
    """Batches that decompress to 256 MiB and 1 GiB, or claim so, and 200,000 empty records."""
    sent = [
        BATCHES[kind]() for kind in ("gzip bomb", "snappy chunk of 2 GiB", "zstd claims 2^40", "many empty records")
    ]
    zeros = bytes(256 << 20)
    sent += [with_records(bytes(compress_kafka(codec, zeros)), codec) for codec in (KafkaCodec.LZ4, KafkaCodec.SNAPPY)]
    sent.append(with_records(bytes(compress_kafka(KafkaCodec.ZSTD, zeros)) * 4, KafkaCodec.ZSTD))
    codes: Counter[int | None] = Counter()
    longest = 0.0
    for _ in again(target):
        for one in sent:
            began = time.monotonic()
            with wire.connect(target.plaintext, 2 * _LONGEST) as opened:
                opened.sendall(wire.produce(target.topic.encode(), one))
                answer = wire.receive(opened)
            longest = max(longest, time.monotonic() - began)
            codes[None if answer is None else wire.produce_answer(answer)[0]] += 1
    refused = codes.keys() <= _REFUSED | {None} and longest < _LONGEST
    return Seen(f"{_told(codes)}; answered in {longest:.1f} s at most", refused)


def large_records(target: Target) -> Seen:
    """Records of 9 and 60 MiB, which the topic does not take."""
    topic = f"limited-{secrets.token_hex(3)}"
    limited = NewTopic(topic, 1, 1, config={"max.message.bytes": str(5 << 20)})
    admin = AdminClient({"bootstrap.servers": target.plaintext})
    admin.create_topics([limited])[topic].result(30)
    codes: Counter[int | None] = Counter()
    for _ in again(target):
        for size in (9 << 20, 60 << 20):
            with wire.connect(target.plaintext, 2 * _LONGEST) as opened:
                opened.sendall(wire.produce(topic.encode(), wire.batch([bytes(size)])))
                answer = wire.receive(opened)
            codes[None if answer is None else wire.produce_answer(answer)[0]] += 1
    return Seen(_told(codes), set(codes) == {10})


def pipelined(target: Target) -> Seen:
    """1,000 requests behind a Fetch that waits, on one connection."""
    answers = in_order = 0
    for _ in again(target):
        requests = [wire.fetch_request(target.topic, wait_ms=200, offset=1 << 40, correlation_id=0)]
        requests += [wire.api_versions_request(correlation_id=n) for n in range(1, 1000)]
        with wire.connect(target.plaintext) as opened:
            opened.sendall(b"".join(requests))
            for number in range(1000):
                answer = wire.receive(opened)
                answers += answer is not None
                in_order += answer is not None and struct.unpack_from(">i", answer)[0] == number
    return Seen(f"{answers:,} answers, {in_order:,} in their order", answers == in_order and not answers % 1000)


def client_ids(target: Target) -> Seen:
    """A client id of its own with each request, some of 32 KB, some with line ends and look-ups of Java's loggers."""
    served = sent = 0
    kinds = (b"", b"\r\n! forged event", b"${jndi:ldap://x}", b"\0\xff", b"x" * 32_000)
    with wire.connect(target.plaintext) as opened:
        for number in again(target):
            made = (b"%d-%d" % (number, n) + kinds[n % len(kinds)] for n in range(100))
            opened.sendall(b"".join(wire.framed(wire.header(18, 0, client=one, flexible=False)) for one in made))
            for _ in range(100):
                sent += 1
                served += wire.receive(opened) is not None
    return Seen(f"{served:,} of {sent:,} answered", served == sent)


def mutated(target: Target) -> Seen:
    """Sound requests, changed by chance."""
    topic = f"mutated-{secrets.token_hex(3)}"
    create(target.plaintext, topic)
    until = time.monotonic() + target.seconds
    seed = secrets.randbits(32)
    answered, closed = mutations.run(
        target.plaintext,
        topic,
        random.Random(seed),
        lambda sent: _slowly() and (sent < 100 or time.monotonic() < until),
    )
    return Seen(f"{answered:,} answered, {closed:,} closed (seed {seed})", answered > 0 and closed > 0)


def _slowly() -> bool:
    let_pass(0.005)
    return True


def _told(codes: Counter[int | None]) -> str:
    parts = sorted(codes.items(), key=lambda one: -1 if one[0] is None else one[0])
    return ", ".join(f"{count:,} {'closed' if code is None else f'error {code}'}" for code, count in parts)
