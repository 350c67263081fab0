"""A real Pulsar standalone as a child process: broker, bookie and metadata store in one JVM, on a directory of ours."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from bridge.errors import StartupError
from bridge.standalone import probe
from bridge.standalone.child import Child, tail
from bridge.standalone.guard import Guard
from bridge.standalone.ports import HOST, is_free

_MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
# What Pulsar's own start script opens to it (bin/pulsar).
_OPENS = (
    "java.base/jdk.internal.loader", "java.base/java.lang", "java.base/java.io", "java.base/java.util.zip",
    "java.base/jdk.internal.platform", "java.base/java.nio", "java.base/jdk.internal.misc",
    "java.management/sun.management",
)  # fmt: skip
HEALTHY_WITHIN_SECONDS = 120.0
_MAX_CLEAN_RESTARTS = 3
_LATEST_LINES = 200
_MAX_LOST_REGISTRATIONS = 2  # a bookie that finds its own old registration may lose it once or twice
STOP_WITHIN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class PulsarPlan:
    """Where it lives and listens, and what it may use."""

    data_dir: Path
    port: int
    http_port: int
    heap_megabytes: int = 768
    direct_megabytes: int = 1024
    settings: Mapping[str, str] = field(default_factory=dict)  # over pulsar.conf; None of ours for production
    java_options: Sequence[str] = ()

    @property
    def service_url(self) -> str:
        """For Pulsar's binary protocol."""
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        """For Pulsar's REST API."""
        return f"http://{HOST}:{self.http_port}"


class PulsarProcess:
    """Start, watch, kill and start again; the data stays in the plan's directory."""

    def __init__(
        self, plan: PulsarPlan, java: Path, jars: Sequence[Path], guard: Guard, keep_open: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        self._java = java
        self._jars = jars
        self._keep_open = keep_open
        self._logs = plan.data_dir / "logs"
        self.child = Child("Pulsar", guard, self._logs / "pulsar.out")

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self.child.pid

    def start(self, tell: Callable[[float], None] | None = None, seconds: float = HEALTHY_WITHIN_SECONDS) -> float:
        """Start it and wait until its broker answers `ok`; how long that took. On failure nothing is left running.

        After a KILL its bookie may lose and take its old registration again forever (apache/pulsar#17759), which takes
        a core. A stop in order clears the registration, so the next start is sound.
        """
        took = self._start(tell, seconds)
        for _ in range(_MAX_CLEAN_RESTARTS):
            if not has_registration_conflict(tail(self._logs / "pulsar.log", _LATEST_LINES)):
                break
            self.stop()
            took += self._start(tell, seconds)
        return took

    def _start(self, tell: Callable[[float], None] | None, seconds: float) -> float:
        for port in (self.plan.port, self.plan.http_port):
            if not is_free(port):
                raise StartupError(f"Pulsar cannot start: port {port} is taken")
        arguments = self._write_files()
        self.child.start([str(self._java), f"@{arguments}"], cwd=self.plan.data_dir, keep_open=self._keep_open)
        try:
            return probe.wait_until_ready(self.child, self.problem, seconds, tell)
        except StartupError as error:
            self.kill()
            raise StartupError(f"{error}\n{self.last_lines()}") from None
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let it close its ledgers; KILL when it takes too long (its data survives that too)."""
        self.child.stop(STOP_WITHIN_SECONDS)

    def kill(self) -> None:
        """KILL it, as a crash would."""
        self.child.kill()

    def restart(self, tell: Callable[[float], None] | None = None) -> float:
        """Stop it if it still runs, and start it on the same data and ports."""
        self.stop()
        return self.start(tell)

    def last_lines(self, count: int = 12) -> str:
        """The end of its log, and of what it wrote outside of it."""
        log = self._logs / "pulsar.log"
        written = [text for text in (tail(log, count), self.child.last_lines(count)) if text]
        return "\n".join([*written, f"(more in {log})"])

    def problem(self) -> str | None:
        """What keeps it from being healthy; the broker stores a message and reads it back for the answer."""
        status, body = probe.get(self.plan.http_port, "/admin/v2/brokers/health")
        if status == 200 and body.strip() == "ok":
            return None
        return f"its health check answers {status or 'nothing'}: {body[:200]}"

    def _write_files(self) -> Path:
        """Write its configuration again, so that nothing of an older version is left in a data directory."""
        directory = self.plan.data_dir
        temporary = directory / "tmp"
        # RocksDB and Netty unpack native libraries here and leave them behind when killed
        shutil.rmtree(temporary, ignore_errors=True)
        for path in (directory / "conf", temporary, self._logs):
            path.mkdir(parents=True, exist_ok=True)
        conf = directory / "conf" / "pulsar.conf"
        conf.write_text(self._conf(), encoding="utf-8")
        logging = directory / "conf" / "log4j2.xml"
        logging.write_text(_data("log4j2.xml"), encoding="utf-8")
        arguments = directory / "conf" / "java.args"
        arguments.write_text("\n".join(_quoted(a) for a in self._arguments(conf, logging, temporary)), encoding="utf-8")
        return arguments

    def _conf(self) -> str:
        added = {
            "brokerServicePort": str(self.plan.port),
            "webServicePort": str(self.plan.http_port),
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            **self.plan.settings,
        }
        # a later line of a properties file wins
        return _data("pulsar.conf") + "\n" + "".join(f"{name}={value}\n" for name, value in added.items())

    def _arguments(self, conf: Path, logging: Path, temporary: Path) -> list[str]:
        directory = self.plan.data_dir
        opens = [part for package in _OPENS for part in ("--add-opens", f"{package}=ALL-UNNAMED")]
        return [
            f"-Xmx{self.plan.heap_megabytes}m",
            f"-XX:MaxDirectMemorySize={self.plan.direct_megabytes}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            *self.plan.java_options,
            "-Dio.netty.tryReflectionSetAccessible=true",
            *opens,
            f"-Djava.io.tmpdir={temporary}",
            f"-Dbridge.logs={self._logs}",
            f"-Dlog4j.configurationFile={logging}",
            *("-cp", ":".join(map(str, self._jars))),
            _MAIN,
            *("--config", str(conf), "-nfw", "-nss"),
            *("--bookkeeper-dir", str(directory / "bookkeeper"), "--metadata-dir", str(directory / "metadata")),
        ]


def _data(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _quoted(argument: str) -> str:
    """An argument as java's @file wants it."""
    return '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'


def has_registration_conflict(log: str) -> bool:
    """Whether the latest lines of Pulsar's log are full of its bookie losing its registration and taking it again."""
    lost = [line for line in log.splitlines() if "/ledgers/available/" in line and "was invalidated" in line]
    return len(lost) > _MAX_LOST_REGISTRATIONS
