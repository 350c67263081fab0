"""`make test` installs what is missing, or says so in one line, and leaves nothing else behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.sources import ROOT

INSTALLED = "kcat"
APT = """#!/bin/sh
echo "$@" >> {log}
[ -e {policy} ] && cat {policy} >> {log}
case "$*" in *install*) printf '#!/bin/sh\\n' > {bin}/{program}; chmod 755 {bin}/{program} ;; esac
"""
SUDO = """#!/bin/sh
[ "$1" = -n ] && shift && exec "$@"
"""


class Machine:
    """What a PATH has: the tools of every system, and programs that the test writes."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.log, self.policy = directory / "log", directory / "policy-rc.d"
        for tool in ("cat", "chmod", "env", "install", "rm", "sh", "true"):
            (self.bin / tool).symlink_to(f"/usr/bin/{tool}")
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setattr(programs, "PACKAGES", {INSTALLED: "of-kcat"})

    def write(self, name: str, text: str) -> None:
        """A program."""
        names = {"log": self.log, "policy": self.policy, "bin": self.bin, "program": INSTALLED}
        (self.bin / name).write_text(text.format(**names), encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def did(self) -> list[str]:
        """What apt-get was given, each time with the policy that it found."""
        return self.log.read_text("utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_is_missing_is_installed_and_no_service_starts(machine: Machine) -> None:
    machine.write("apt-get", APT)
    assert programs.find_missing() == [INSTALLED]
    programs.install(["of-kcat"], [], machine.policy)
    assert not programs.find_missing()
    update, found, install, still_found = (line for line in machine.did() if not line.startswith("#!"))
    assert update.endswith(" update")
    assert install.endswith(" install --no-install-recommends of-kcat")
    assert found == still_found == "exit 101"  # start nothing
    assert not machine.policy.exists()


def test_a_policy_of_the_machine_s_own_stays(machine: Machine) -> None:
    machine.write("apt-get", APT)
    machine.policy.write_text("own\n")
    programs.install(["of-kcat"], [], machine.policy)
    assert machine.policy.read_text() == "own\n"


def test_sudo_is_used_where_it_asks_for_no_password(machine: Machine) -> None:
    assert programs.root_command(0) == []
    assert programs.root_command(1000) is None
    machine.write("sudo", SUDO)
    assert programs.root_command(1000) == ["sudo", "-n"]
    machine.write("sudo", "#!/bin/sh\nexit 1\n")
    assert programs.root_command(1000) is None


@pytest.mark.parametrize(
    ("has_apt", "how"),
    [(True, "with `sudo apt-get install --no-install-recommends of-kcat`"), (False, "as your system does")],
)
def test_what_may_not_be_installed_is_told_in_one_line(
    has_apt: bool, how: str, machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    if has_apt:
        machine.write("apt-get", APT)
    assert programs.main() == 1
    assert capfd.readouterr() == ("", f"make test: tests need {INSTALLED}: install what is missing {how}\n")
    assert not machine.did()


def test_a_java_that_is_too_old_is_missing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PACKAGES", {"java": "jdk"})
    monkeypatch.delenv("JAVA_HOME", raising=False)
    machine.write("java", "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    assert programs.find_missing() == ["java"]
    machine.write("java", "#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n")
    assert not programs.find_missing()


def test_a_library_is_looked_for_as_programs_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PACKAGES", {"libc.so.6": "libc6", "libnone.so.9": "libnone9"})
    assert programs.find_missing() == ["libnone.so.9"]


def test_it_runs_before_any_package_is_installed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(ROOT)!r}); import tests.support.programs",
    ]
    subprocess.run(command, env={"PATH": os.environ["PATH"]}, cwd=tmp_path, check=True)
