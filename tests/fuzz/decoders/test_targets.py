"""Every decoder with its corpus and what chance makes of it: the same on every run. `make fuzz` looks further."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.codec.fuzz import damaged
from tests.fuzz.decoders import __main__ as command
from tests.fuzz.decoders.measures import bytes_taken, lines_executed
from tests.fuzz.decoders.table import BY_NAME, TARGETS
from tests.fuzz.decoders.target import Target, with_word
from tests.support.effort import examples

each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
ROUNDS = 300


def mutants(target: Target, count: int) -> list[bytes]:
    """Inputs of the corpus, changed: some bytes, or a word put in; some put together of two."""
    chance = random.Random(target.name)
    corpus = [one for one in target.corpus if one]
    found = []
    for _ in range(count):
        one = chance.choice(corpus)
        if chance.random() < 0.1:
            other = chance.choice(corpus)
            one = one[: chance.randrange(len(one) + 1)] + other[chance.randrange(len(other)) :]
        if target.words and chance.random() < 0.3:
            one = with_word(one, target.words, chance)
        if chance.random() < 0.8:
            one = damaged(one, chance)
        found.append(one[: target.max_bytes])
    return found


@each_target
def test_what_encoders_write_is_taken_for_valid(target: Target) -> None:
    seeds = target.seeds()
    refused = [seed for seed in seeds if not target.check(seed)]
    assert len(refused) <= len(seeds) // 3
    assert max(map(len, seeds)) <= target.max_bytes


@each_target
def test_what_failed_once_does_no_more(target: Target) -> None:
    for one in target.regressions:
        target.check(one)


@each_target
def test_changed_by_chance_it_is_read_or_refused(target: Target) -> None:
    for one in mutants(target, examples(ROUNDS)):
        target.check(one)


@each_target
def test_time_and_memory_follow_the_size_of_the_input(target: Target) -> None:
    target.check(b"")  # what is made once
    for one in mutants(target, examples(40)):
        assert lines_executed(target.check, one) <= target.lines + target.lines_per_byte * len(one), one.hex()
        assert bytes_taken(target.check, one) <= target.memory, one.hex()


def test_a_target_that_fails_is_replayed_with_what_it_raised(tmp_path: Path) -> None:
    file = tmp_path / "crash"
    file.write_bytes(b"0")

    def check(data: bytes) -> bool:
        raise AssertionError("as it was found")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BY_NAME, "failing", Target("failing", check, lambda: [b"0"]))
        with pytest.raises(AssertionError, match="as it was found"):
            command.replay("failing", file)


def test_the_report_tells_findings_and_how_to_run_them_again(capsys: pytest.CaptureFixture[str]) -> None:
    path = command.DIRECTORY / "frames" / "findings" / "crash-1"
    command.report([command.Outcome("frames", 1200, 10, 33, 7, [path], "")])
    told = capsys.readouterr().out
    assert re.search(r"^frames +1200 +120 +33 +7 +1$", told, re.MULTILINE)
    assert "-m tests.fuzz.decoders frames --replay build/fuzz/frames/findings/crash-1" in told
