"""Small files beside the data, written whole or not at all, wherever Spark can write: a disk, HDFS, an object store."""

import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bridge.pipeline.errors import Usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DYING_JVM = 15.0
"""Seconds in which the JVM of a process that was killed is certainly gone."""


_ELSEWHERE = ("PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
"""With one of these in the environment a path without a scheme may be on HDFS or in an object store."""


class ReadableFiles(Protocol):
    """A directory of small files, as jobs read it."""

    def __str__(self) -> str:
        """Its address, with the scheme."""

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, none where it is not there."""

    def read(self, name: str) -> Any:
        """The JSON of a file; None where it is not there."""


def files_to_read(path: str, spark: "Callable[[], SparkSession]") -> ReadableFiles:
    """The directory; Spark, whose start takes seconds, is asked only for those that this process cannot read itself."""
    local = local_directory(path)
    return Files(spark(), path) if local is None else LocalFiles(local)


def local_directory(path: str) -> Path | None:
    """The path on this machine's disk; None where it is, or may be, anywhere else."""
    if path.startswith("file:"):
        return Path(re.sub("^/{2,}", "/", path.removeprefix("file:")))
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path)
    return None if scheme or any(name in os.environ for name in _ELSEWHERE) else Path(path)


_CHECKSUMS = re.compile(r"\..*\.crc")
"""Hadoop writes one beside each file on a disk, and lists none of them."""


def _check(path: Path, content: bytes) -> None:
    """Raise ValueError where Hadoop's checksums (`ChecksumFileSystem`) say that the file is another one."""
    try:
        sums = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return
    size = int.from_bytes(sums[4:8])
    if sums[:4] != b"crc\0" or not size:
        raise ValueError("no file of checksums")
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    if b"".join(zlib.crc32(chunk).to_bytes(4) for chunk in chunks) != sums[8:]:
        raise ValueError("another checksum")


class LocalFiles:
    """A directory on this machine's disk, read without Spark."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        if root.exists() and not root.is_dir():
            raise Usage(f"{self} is no directory")

    def __str__(self) -> str:
        return f"file:{self._root}"

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, none where it is not there."""
        path = self._root / directory
        try:
            found = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
        except OSError as error:
            raise Usage(f"cannot read {path}: {error.strerror}") from None
        return [name for name in found if not _CHECKSUMS.fullmatch(name)]

    def read(self, name: str) -> Any:
        """The JSON of a file; None where it is not there."""
        path = self._root / name
        try:
            content = path.read_bytes()
            _check(path, content)
            return json.loads(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Usage(f"cannot read {path}: {error.strerror}") from None
        except ValueError:
            raise Usage(f"file:{path} is damaged") from None


class Files:
    """A directory, through Hadoop's file systems."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        jvm: Any = spark._jvm  # py4j, untyped
        self._jvm, self._spark = jvm, spark
        self._root = self._jvm.org.apache.hadoop.fs.Path(root)
        configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._root.getFileSystem(configuration)
        self._root = self._system.makeQualified(self._root)

    def __str__(self) -> str:
        return str(self._root.toString())

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, none where it is not there."""
        path = self._path(directory)
        if not self._system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path))

    def read(self, name: str) -> Any:
        """The JSON of a file; None where it is not there."""
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        try:
            return json.loads(text)
        except ValueError:
            raise Usage(f"{path.toString()} is damaged") from None

    def write(self, name: str, content: Any) -> None:
        """Write JSON under a name that appears only when the file is whole."""
        target = self._path(name)
        part = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.part")
        stream = self._system.create(part, True)
        try:
            stream.write(json.dumps(content, indent=1).encode())
            stream.hsync()
        finally:
            stream.close()
        if not self._system.rename(part, target):
            raise Usage(f"{target.toString()} exists already: is another process at work here?")

    def remove(self, name: str) -> None:
        """Remove a file or a directory with all that is in it."""
        self._system.delete(self._path(name), True)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """One process at a time. Only a local disk can tell; elsewhere the user has to ensure it."""
        if self._root.toUri().getScheme() != "file":
            yield
            return
        with alone(self._spark, Path(self._root.toUri().getPath(), name)):
            yield

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


@contextmanager
def alone(spark: "SparkSession", path: Path, what: str = "") -> Iterator[None]:
    """Hold a lock file. The JVM does: when this process is killed, that lives on for a moment and may yet write."""
    jvm: Any = spark._jvm
    path.parent.mkdir(parents=True, exist_ok=True)
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    try:
        deadline = time.monotonic() + _DYING_JVM
        while (lock := _try_lock(file)) is None:
            if time.monotonic() > deadline:
                raise Usage(f"another process is at work here: {f'{what}, and ' if what else 'it '}holds {path}")
            time.sleep(0.1)
        yield
        lock.release()
    finally:
        file.close()


def _try_lock(file: Any) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return file.getChannel().tryLock()
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error):  # held by this very JVM
            return None
        raise
