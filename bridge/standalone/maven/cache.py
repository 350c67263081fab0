"""A directory of jars: fetched once, every one checked against a known sha256.

Only jars that are asked for by their hash reach a class path, whatever else lies in the cache.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bridge.standalone.maven.maven import JarsError, MavenFetch, Say, jar_name


@dataclass(frozen=True, slots=True)
class Jar:
    """A file of a Maven repository, `group:artifact:version[:classifier]`, by its content."""

    sha256: str
    coordinates: str

    @property
    def name(self) -> str:
        """The file name Maven gives it."""
        return jar_name(self.coordinates)


def cache_directory() -> Path:
    """Where this user's caches live, as the XDG base directory specification says."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "pulsar-kafka-bridge")


def wrong_jars(directory: Path, jars: Sequence[Jar]) -> dict[Jar, str]:
    """The jars that are missing in the directory or not what they should be, each with what is wrong."""
    result: dict[Jar, str] = {}
    for jar in jars:
        try:
            with (directory / jar.name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            result[jar] = _MISSING
            continue
        if found != jar.sha256:
            result[jar] = f"has sha256 {found[:12]}… instead of {jar.sha256[:12]}…"
    return result


class JarCache:
    """A directory that holds the locked jars once `ensure` has returned."""

    def __init__(self, root: Path, say: Say, jars: Sequence[Jar], fetch: MavenFetch) -> None:
        self._root = root
        self._lib = root / "lib"
        self._stamp = root / "verified.json"
        self._say = say
        self._jars = tuple(jars)
        self._fetch = fetch

    def ensure(self, *, verify: bool = False) -> list[Path]:
        """Every jar, present and as locked; fetched again when not. `verify` reads every byte again."""
        with self._locked():
            if verify or not self._stamp_holds():
                self._repair(self._wrong(self._lib))
                self._write_stamp()
        return [self._lib / jar.name for jar in self._jars]

    def _repair(self, wrong: dict[Jar, str]) -> None:
        if not wrong:
            return
        damaged = [f"{jar.name} {why}" for jar, why in wrong.items() if why != _MISSING]
        if self._stamp.exists() or damaged:
            first = damaged[0] if damaged else f"{next(iter(wrong)).name} {_MISSING}"
            others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            self._say(f"the jar cache {self._root} is damaged ({first}{others}): fetching again what is wrong")
        self._stamp.unlink(missing_ok=True)
        part = self._root / "part"
        for private in (False, True):
            self._fetch_into(part, tuple(wrong), private=private)
            still = self._wrong(part, tuple(wrong))
            if not still:
                break
            first_wrong, why = next(iter(still.items()))
            self._say(f"{first_wrong.name} {why} in the local Maven repository: fetching it past that repository")
        else:
            raise JarsError(
                f"what Maven fetched for {first_wrong.coordinates} {why}: the Maven mirror in use serves another file "
                "than the one this version was tested with; use another mirror or clear that one's cache"
            )
        self._lib.mkdir(exist_ok=True)
        for jar in wrong:
            # One by one, and over the old: a Pulsar that runs from this cache keeps the files it has open.
            os.replace(part / jar.name, self._lib / jar.name)
        shutil.rmtree(part)
        shutil.rmtree(self._root / "m2", ignore_errors=True)

    def _fetch_into(self, part: Path, jars: tuple[Jar, ...], *, private: bool) -> None:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        repository = self._root / "m2" if private else None
        self._fetch.run([jar.coordinates for jar in jars], part, repository)

    def _wrong(self, directory: Path, jars: Sequence[Jar] | None = None) -> dict[Jar, str]:
        return wrong_jars(directory, self._jars if jars is None else jars)

    def _stamp_holds(self) -> bool:
        try:
            stamp = json.loads(self._stamp.read_text(encoding="utf-8"))
            return bool(stamp == self._stamp_now())
        except (OSError, ValueError):
            return False

    def _stamp_now(self) -> dict[str, list[object]]:
        """What tells cheaply that nothing has changed since the last full check."""
        stamp: dict[str, list[object]] = {}
        for jar in self._jars:
            status = (self._lib / jar.name).stat()
            stamp[jar.name] = [jar.sha256, status.st_size, status.st_mtime_ns]
        return stamp

    def _write_stamp(self) -> None:
        temporary = self._stamp.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._stamp_now()), encoding="utf-8")
        os.replace(temporary, self._stamp)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; the lock goes with the process, however it ends."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            lock = (self._root / "lock").open("w")
        except OSError as error:
            raise JarsError(f"cannot use the jar cache {self._root}: {error.strerror}; set XDG_CACHE_HOME") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("another process is filling the jar cache: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield
            except OSError as error:
                raise JarsError(f"the jar cache {self._root}: {error}") from error


_MISSING = "is missing"
