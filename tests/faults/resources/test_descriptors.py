"""The bridge has no descriptors left while strangers connect: its clients go on, it waits, and recovers."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bridge.config import Address
from tests.faults.checker import Load, load
from tests.faults.figures import report
from tests.faults.processes import cpu_seconds, let_pass, open_files
from tests.faults.topics import produce, read_values, wait_for
from tests.support.bridges import BridgeChild

SPARE = 8
"""Descriptors for the first of the strangers, and for the new clients that come after them."""
STRANGERS = 50
IDLE_SECONDS = 2.0
SPUN_SECONDS = 0.6
"""Of the processor. A loop that spins takes all of the time."""


@contextmanager
def at_most(pid: int, files: int) -> Iterator[None]:
    """A limit of open files for a process that runs."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def quiet(running: Load) -> Iterator[None]:
    """The writers write nothing: what the bridge does then, it does by itself."""
    usual = [writer.per_turn for writer in running.writers]
    for writer in running.writers:
        writer.per_turn = 0
    try:
        running.until("all acks", lambda: all(w.sent == len(w.acks) + len(w.errors) for w in running.writers))
        yield
    finally:
        for writer, per_turn in zip(running.writers, usual, strict=True):
            writer.per_turn = per_turn


def refusals(child: BridgeChild) -> int:
    """How often the bridge has told that it cannot accept."""
    return Path(child.process.child.output).read_text(errors="replace").count("! accept failed")


@contextmanager
def strangers(child: BridgeChild) -> Iterator[None]:
    """More connections than the bridge has descriptors for; the kernel holds the rest."""
    address = Address.parse(child.kafka)
    with ExitStack() as stack:
        for _ in range(STRANGERS):
            stack.enter_context(socket.create_connection((address.host, address.port), 10))
        wait_for(lambda: refusals(child) > 0, "descriptors do not run out")
        yield


@pytest.mark.timeout(120)
def test_who_is_connected_is_served_and_others_come_in_later(bridge_child: BridgeChild, topic: str) -> None:
    pid = bridge_child.pid
    with load(bridge_child.kafka, topic) as running:
        limit = open_files(pid) + SPARE
        with at_most(pid, limit):
            with strangers(bridge_child):
                running.more(60)
                with quiet(running):
                    before = cpu_seconds(pid)
                    let_pass(IDLE_SECONDS)
                    spun = cpu_seconds(pid) - before
                running.more(60)
                held, refused = open_files(pid), refusals(bridge_child)
            with quiet(running):
                (offset,) = produce(bridge_child.kafka, topic, [b"n:0"])
                assert read_values(bridge_child.kafka, topic, offset, 1) == [b"n:0"]
        verdict = running.stop()
    report(verdict=verdict, held=held, limit=limit, refused=refused, spun=round(spun, 2))
    verdict.check()
    assert limit - 1 <= held <= limit, "descriptors were left"
    assert spun < SPUN_SECONDS
    os.kill(pid, 0)
