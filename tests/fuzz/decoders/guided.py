"""Runs one target under atheris, which looks for inputs that execute new lines of the bridge; `__main__` starts it.

    python -m tests.fuzz.decoders.guided NAME DIRECTORY SECONDS SEED

A check that raises is a finding: its input and traceback are written, once for each place, and the run goes on. What
takes too long or too much memory ends the run, and libFuzzer writes the input.
"""

from __future__ import annotations

import random
import sys
import traceback
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import atheris

from tests.fuzz.decoders.target import Target, with_word

TIMEOUT_SECONDS = 10
"""What one input may take; a hundred times what the slowest sound one does."""
RSS_MEGABYTES = 1024


class Findings:
    """The inputs that failed, one for each place where they did."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._places: set[str] = set()

    def note(self, error: Exception, data: bytes) -> None:
        """Write the input and the traceback, unless one has failed there already."""
        place = f"{type(error).__name__} at {_place(error)}"
        if place in self._places:
            return
        self._places.add(place)
        path = self._directory / f"crash-{sha256(data).hexdigest()[:16]}"
        path.write_bytes(data)
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error))[-20_000:], encoding="utf-8")
        print(f"finding: {place}: {path}", flush=True)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "/bridge/" in frame.filename] or frames
    return f"{Path(inner[-1].filename).name}:{inner[-1].lineno}"


def run(target: Target, directory: Path, seconds: int, seed: int) -> None:
    """Fuzz for so long; it does not return."""
    corpus, found = directory / "corpus", directory / "findings"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for one in target.corpus:
        (corpus / sha256(one).hexdigest()[:16]).write_bytes(one)
    words = directory / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in (*target.words, bytes(4))), encoding="ascii")
    findings = Findings(found)

    def one_input(data: bytes) -> None:
        try:
            target.check(data)
        except Exception as error:  # noqa: BLE001 — whatever it is, it is what is looked for
            findings.note(error, data)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if target.words and chance.random() < 0.1:  # libFuzzer's own words have 64 bytes at most
            return with_word(data, target.words, chance)[:most]
        mutated: bytes = atheris.Mutate(data, most)
        return mutated

    options = {
        "max_total_time": seconds, "seed": seed, "max_len": target.max_bytes, "timeout": TIMEOUT_SECONDS,
        "rss_limit_mb": RSS_MEGABYTES, "dict": words, "artifact_prefix": f"{found}/", "print_final_stats": 1,
    }  # fmt: skip
    arguments = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus)]
    atheris.Setup(arguments, one_input, custom_mutator=changed)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02X}" for byte in word)


def load(name: str) -> Target:
    """The target, all that it imports made to tell which lines are executed: some of it only when it is used."""
    with atheris.instrument_imports(include=["bridge"]):
        from tests.fuzz.decoders import table

        target = table.BY_NAME[name]
        for one in target.corpus:
            with suppress(Exception):  # found again, and told, when it is fuzzed
                target.check(one)
    return target


if __name__ == "__main__":
    _, of_name, into, for_seconds, with_seed = sys.argv
    run(load(of_name), Path(into), int(for_seconds), int(with_seed))
