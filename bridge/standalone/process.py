"""A real Pulsar standalone as a child process: broker, bookie and metadata store in one JVM, on a directory of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import tail
from bridge.standalone.jvm import HEALTHY_WITHIN_SECONDS, Java, JvmProcess, Memory, Program, Tell, packaged, properties
from bridge.standalone.ports import HOST

_MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
_FIRST_NAMESPACE = "public/default"
_MAX_CLEAN_RESTARTS = 3
_LATEST_LINES = 200
_MAX_LOST_REGISTRATIONS = 2  # a bookie that finds its own old registration may lose it once or twice


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


class PulsarProcess(JvmProcess):
    """Start, watch, kill and start again; the data stays in the plan's directory."""

    def __init__(
        self, plan: PulsarPlan, java: Path, jars: Sequence[Path], guard: Guard, keep_open: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        started_with = Java(java, jars, guard, plan.java_options, keep_open)
        super().__init__(_program(plan), started_with, lambda: standalone_problem(plan.http_port))

    @property
    def members(self) -> list[JvmProcess]:
        """Every process of this Pulsar: the one."""
        return [self]

    def start(self, tell: Tell | None = None, seconds: float = HEALTHY_WITHIN_SECONDS) -> float:
        """Start it and wait until its broker answers `ok`; how long that took. On failure nothing is left running.

        After a KILL its bookie may lose and take its old registration again forever (apache/pulsar#17759), which takes
        a core. A stop in order clears the registration, so the next start is sound.
        """
        took = super().start(tell, seconds)
        for _ in range(_MAX_CLEAN_RESTARTS):
            if not has_registration_conflict(tail(self.log, _LATEST_LINES)):
                break
            self.stop()
            took += super().start(tell, seconds)
        return took


def broker_problem(http_port: int) -> str | None:
    """What keeps a broker from being healthy; it stores a message and reads it back for the answer."""
    status, body = probe.get(http_port, "/admin/v2/brokers/health")
    if status == 200 and body.strip() == "ok":
        return None
    return f"its health check answers {status or 'nothing'}: {body[:200]}"


def standalone_problem(http_port: int) -> str | None:
    """As `broker_problem`, for a Pulsar in one JVM: it makes its first namespace after its broker is healthy."""
    problem = broker_problem(http_port)
    if problem is not None:
        return problem
    status, body = probe.get(http_port, f"/admin/v2/namespaces/{_FIRST_NAMESPACE}")
    return (
        None if status == 200 else f"namespace {_FIRST_NAMESPACE} is not there yet: {status or 'nothing'}: {body[:200]}"
    )


def _program(plan: PulsarPlan) -> Program:
    directory = plan.data_dir
    added = {
        "brokerServicePort": plan.port,
        "webServicePort": plan.http_port,
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        **plan.settings,
    }
    return Program(
        name="Pulsar",
        main=_MAIN,
        directory=directory,
        memory=Memory(plan.heap_megabytes, plan.direct_megabytes),
        configuration=packaged("pulsar.conf") + "\n" + properties(added),
        arguments=lambda conf: [
            *("--config", str(conf), "-nfw", "-nss"),
            *("--bookkeeper-dir", str(directory / "bookkeeper"), "--metadata-dir", str(directory / "metadata")),
        ],
        ports=(plan.port, plan.http_port),
        log="pulsar",
    )


def has_registration_conflict(log: str) -> bool:
    """Whether the latest lines of Pulsar's log are full of its bookie losing its registration and taking it again."""
    lost = [line for line in log.splitlines() if "/ledgers/available/" in line and "was invalidated" in line]
    return len(lost) > _MAX_LOST_REGISTRATIONS
