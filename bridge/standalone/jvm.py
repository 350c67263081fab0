"""One server of Pulsar's in a JVM of its own: its files written, its ports checked, started until it is ready."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child, tail
from bridge.standalone.ports import is_free

# What Pulsar's own start script opens to it (bin/pulsar).
_OPENS = (
    "java.base/jdk.internal.loader", "java.base/java.lang", "java.base/java.io", "java.base/java.util.zip",
    "java.base/jdk.internal.platform", "java.base/java.nio", "java.base/jdk.internal.misc",
    "java.management/sun.management",
)  # fmt: skip
HEALTHY_WITHIN_SECONDS = 120.0
STOP_WITHIN_SECONDS = 20.0
QUICK_START = ("-XX:TieredStopAtLevel=1",)
"""For many JVMs on few cores: code is compiled quickly rather than well."""
Tell = Callable[[float], None]
"""Told from time to time how long we have waited."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a JVM may use, in MiB."""

    heap: int
    direct: int


@dataclass(frozen=True, slots=True)
class Java:
    """What every JVM is started with."""

    executable: Path
    jars: Sequence[Path]
    guard: Guard
    options: Sequence[str] = ()
    keep_open: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A main class of Pulsar's: how it is called, and what it needs."""

    name: str
    main: str
    directory: Path
    memory: Memory
    configuration: str
    """The text of its configuration file."""
    arguments: Callable[[Path], Sequence[str]]
    """The command line, from the path of that file."""
    ports: Sequence[int] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    log: str = "server"


class JvmProcess:
    """Start, watch, kill and start again; what it stores stays in the program's directory."""

    def __init__(self, program: Program, java: Java, problem: Callable[[], str | None]) -> None:
        """`problem`: what keeps it from being healthy; None when nothing does."""
        self.program = program
        self.problem = problem
        self._java = java
        self._logs = program.directory / "logs"
        self.log = self._logs / f"{program.log}.log"
        self.child = Child(program.name, java.guard, self._logs / f"{program.log}.out")

    @property
    def name(self) -> str:
        """What users are told it is."""
        return self.program.name

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self.child.pid

    def start(self, tell: Tell | None = None, seconds: float = HEALTHY_WITHIN_SECONDS) -> float:
        """Start it and wait until it is healthy; how long that took. On failure it is not left running."""
        self.launch()
        return self.wait_until_healthy(tell, seconds)

    def launch(self) -> None:
        """Start it and wait for nothing."""
        for port in self.program.ports:
            if not is_free(port):
                raise StartupError(f"{self.name} cannot start: port {port} is taken")
        arguments = self._write_files()
        command = [str(self._java.executable), f"@{arguments}"]
        self.child.start(command, cwd=self.program.directory, keep_open=self._java.keep_open)

    def wait_until_healthy(self, tell: Tell | None = None, seconds: float = HEALTHY_WITHIN_SECONDS) -> float:
        """Wait until nothing is wrong with it; how long that took. On failure it is not left running."""
        try:
            return probe.wait_until_ready(self.child, self.problem, seconds, tell)
        except StartupError as error:
            self.kill()
            raise StartupError(f"{error}\n{self.last_lines()}") from None
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let it end in order; KILL when it takes too long (its data survives that too)."""
        self.child.stop(STOP_WITHIN_SECONDS)

    def kill(self) -> None:
        """KILL it, as a crash would."""
        self.child.kill()

    def restart(self, tell: Tell | None = None) -> float:
        """Stop it if it still runs, and start it on the same data and ports."""
        self.stop()
        return self.start(tell)

    def last_lines(self, count: int = 12) -> str:
        """The end of its log, and of what it wrote outside of it."""
        written = [text for text in (tail(self.log, count), self.child.last_lines(count)) if text]
        return "\n".join([*written, f"(more in {self.log})"])

    def _write_files(self) -> Path:
        """Write its configuration again, so that nothing of an older version is left in a data directory."""
        directory = self.program.directory
        temporary = directory / "tmp"
        # RocksDB and Netty unpack native libraries here and leave them behind when killed
        shutil.rmtree(temporary, ignore_errors=True)
        for path in (directory / "conf", temporary, self._logs):
            path.mkdir(parents=True, exist_ok=True)
        configuration = directory / "conf" / f"{self.program.log}.conf"
        configuration.write_text(self.program.configuration, encoding="utf-8")
        logging = directory / "conf" / "log4j2.xml"
        logging.write_text(packaged("log4j2.xml"), encoding="utf-8")
        arguments = directory / "conf" / "java.args"
        words = self._arguments(configuration, logging, temporary)
        arguments.write_text("\n".join(_quoted(word) for word in words), encoding="utf-8")
        return arguments

    def _arguments(self, configuration: Path, logging: Path, temporary: Path) -> list[str]:
        program = self.program
        return [
            f"-Xmx{program.memory.heap}m",
            f"-XX:MaxDirectMemorySize={program.memory.direct}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            *self._java.options,
            "-Dio.netty.tryReflectionSetAccessible=true",
            *(part for package in _OPENS for part in ("--add-opens", f"{package}=ALL-UNNAMED")),
            f"-Djava.io.tmpdir={temporary}",
            f"-Dbridge.log={self.log}",
            f"-Dlog4j.configurationFile={logging}",
            *(f"-D{name}={value}" for name, value in program.properties.items()),
            *("-cp", ":".join(map(str, self._java.jars))),
            program.main,
            *program.arguments(configuration),
        ]


def packaged(name: str) -> str:
    """The text of a file beside this module."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def properties(*parts: Mapping[str, object]) -> str:
    """The text of a properties file; of two lines for one name the later one wins."""
    return "".join(f"{name}={value}\n" for part in parts for name, value in part.items())


def _quoted(argument: str) -> str:
    """An argument as java's @file wants it."""
    return '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'
