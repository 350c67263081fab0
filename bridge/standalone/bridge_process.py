"""The bridge as a child process: `bridge run` on a settings file made for it."""

import os
import sys
from pathlib import Path

from bridge.config import ENV_PREFIX, OTHER_VARIABLES, Settings
from bridge.errors import StartupError
from bridge.http import ready
from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child

READY_WITHIN_SECONDS = 60.0
DRAIN_SECONDS = 30.0


class BridgeProcess:
    """Start, watch, kill and start again; the ports in the settings must be given, not 0."""

    def __init__(self, settings: Settings, directory: Path, guard: Guard) -> None:
        self.settings = settings
        self._config = directory / "bridge.toml"
        self.child = Child("the bridge", guard, directory / "logs" / "bridge.log")

    @property
    def pid(self) -> int:
        """The bridge's own process id."""
        return self.child.pid

    @property
    def bootstrap(self) -> str:
        """What Kafka clients are given."""
        return self.settings.kafka.listen

    def start(self, seconds: float = READY_WITHIN_SECONDS) -> float:
        """Start it and wait until it is ready; how long that took. On failure it is not left running."""
        self.launch()
        try:
            return probe.wait_until_ready(self.child, self._problem, seconds)
        except StartupError as error:
            self.kill()
            raise StartupError(f"{error}\n{self.last_lines()}") from None
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start it and wait for nothing."""
        self._config.parent.mkdir(parents=True, exist_ok=True)
        self._config.touch(mode=0o600)
        self._config.write_text(self.settings.to_toml(), encoding="utf-8")
        command = [sys.executable, "-P", "-m", "bridge", "run", "--config", str(self._config)]
        self.child.start(command, environment=_environment())

    def stop(self) -> bool:
        """Let it answer what is under way; False when it had to be killed."""
        return self.child.stop(DRAIN_SECONDS)

    def kill(self) -> None:
        """KILL it, as a crash would."""
        self.child.kill()

    def last_lines(self, count: int = 12) -> str:
        """The end of its log."""
        return f"{self.child.last_lines(count)}\n(more in {self.child.output})"

    def _problem(self) -> str | None:
        return ready.ask(self.settings.http)


def _environment() -> dict[str, str]:
    """The file holds every setting, with those of the environment already in it."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ENV_PREFIX) or name.startswith(OTHER_VARIABLES)
    }
