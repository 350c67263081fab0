"""Mistakes with ports, limits, Java and the command line."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mistakes.mistake import Mistake, Place, complaint, settings
from tests.support.sources import ROOT

_FREE = ("--kafka-port", "0", "--http-port", "0", "--pulsar-port", "0")


def _port_taken(place: Place) -> str:
    with socket.create_server(("127.0.0.1", place.kafka)):
        return place.start()


def _low_port(place: Place) -> str:
    place.settings('[kafka]\nlisten = "127.0.0.1:92"\n')
    return complaint(place.bridge("run", "--config", "bridge.toml", as_nobody=True))


def _few_files(place: Place) -> str:
    place.settings()
    command = f"ulimit -Sn 512; ulimit -Hn 512; exec {sys.executable} -m bridge run --config bridge.toml"
    said = place.run("bash", "-c", command)
    return next(line for line in said.splitlines() if "! fewer files" in line)


def _open_key(place: Place) -> str:
    with TemporaryDirectory() as reached:  # pytest's own directories are closed to others
        Path(reached).chmod(0o755)
        file = Path(reached) / "token"
        file.write_text("a token\n", "utf-8")
        file.chmod(0o644)
        place.settings(f'[pulsar]\ntoken_file = "{file}"\n')
        place.names[f"{reached}/"] = "/run/"
        return place.bridge("check", "--offline", "--config", "bridge.toml")


def _path_without(place: Place, *names: str) -> str:
    """A PATH with what is on this one, but for these programs."""
    directory = place.directory / "path"
    directory.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).glob("*"):
            link = directory / program.name
            link.unlink(missing_ok=True)
            if program.name not in names:
                link.symlink_to(program)
    return str(directory)


def _standalone(place: Place, *arguments: str, **environment: str) -> str:
    given = {"JAVA_HOME": "", **environment}
    return complaint(place.bridge("standalone", "--ephemeral", "--no-demo", *_FREE, *arguments, environment=given))


def _no_java(place: Place) -> str:
    return _standalone(place, PATH=_path_without(place, "java"))


def _old_java(place: Place) -> str:
    java = place.file("java", "#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n", 0o755)
    return _standalone(place, PATH=f"{java.parent}{os.pathsep}{os.environ['PATH']}")


def _java_home(place: Place) -> str:
    return _standalone(place, JAVA_HOME="/opt/java")


def _no_maven(place: Place) -> str:
    """With nothing fetched yet."""
    return _standalone(place, PATH=_path_without(place, "mvn"), XDG_CACHE_HOME=str(place.directory / "cache"))


def _port_of_standalone(place: Place) -> str:
    with socket.create_server(("127.0.0.1", place.kafka)):
        return place.bridge("standalone", "--ephemeral", "--kafka-port", str(place.kafka))


def _directory_of_others(place: Place) -> str:
    place.file("thesis.tex", "\\documentclass{book}\n")
    arguments = ("--no-demo", *_FREE, "--data-dir", str(place.directory))
    return complaint(place.bridge("standalone", *arguments)).replace(str(place.directory), "~/work")


def _old_python(place: Place) -> str:
    python = place.file("python3", "#!/bin/sh\nexit 1\n", 0o755)
    venv = place.directory / "venv"
    said = place.run("make", "--directory", ROOT, f"VENV={venv}", f"PYTHON={python}", f"{venv}/bin/python")
    return next(line for line in said.splitlines() if line.startswith("bridge: "))


def _no_venv(place: Place) -> str:
    text = f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    python, venv = place.file("python3", text, 0o755), place.directory / "venv"
    said = place.run("make", "--directory", ROOT, f"VENV={venv}", f"PYTHON={python}", f"{venv}/bin/python")
    return next(line for line in said.splitlines() if line.startswith("bridge: "))


def _last_line(*arguments: str, **environment: str) -> Callable[[Place], str]:
    """What a command prints at its end, behind the usage."""
    return lambda place: place.bridge(*arguments, environment=environment).splitlines()[-1]


def _offline(*arguments: str) -> Callable[[Place], str]:
    """What a command prints where no bridge runs."""

    def run(place: Place) -> str:
        place.settings()
        return place.bridge(*arguments, "--config", "bridge.toml")

    return run


MISTAKES = [
    Mistake(
        "the Kafka port is taken", _port_taken, "stop what has the port (`ss -ltnp` shows it), or choose another one"
    ),
    settings(
        "an address of another machine", '[kafka]\nlisten = "192.0.2.1:9092"\n', "choose an address of this machine"
    ),
    settings(
        "a name that nobody knows", '[kafka]\nlisten = "kafka.invalid:9092"\n', "choose an address of this machine"
    ),
    Mistake("a port below 1024, and no right to it", _low_port, "choose a port from 1024 on"),
    Mistake("fewer files may be open than clients may connect", _few_files, "LimitNOFILE="),
    Mistake("others can read the file with the token", _open_key, "chmod"),
    Mistake("there is no Java", _no_java, "apt-get install openjdk-17-jre-headless"),
    Mistake("Java is too old", _old_java, "apt-get install openjdk-17-jre-headless"),
    Mistake("JAVA_HOME leads nowhere", _java_home, "JAVA_HOME=/opt/java has no bin/java"),
    Mistake("there is no Maven", _no_maven, "apt-get install maven"),
    Mistake("the port of `bridge standalone` is taken", _port_of_standalone, "name another, or 0 for any free one"),
    Mistake("a data directory with other files", _directory_of_others, "name an empty or a new one"),
    Mistake("Python is too old", _old_python, "make PYTHON=python3.12"),
    Mistake("Python has no venv", _no_venv, "apt-get install python3-venv"),
    Mistake("is it ready, where nothing runs", _offline("ready"), "is the bridge running"),
    Mistake("topics of a bridge that does not run", _offline("topic", "list"), "--bootstrap HOST:PORT"),
    Mistake("a command that is none", _last_line("serve"), "choose from"),
    Mistake("an option that is none", _last_line("run", "--port", "9092"), "bridge run --help shows"),
    Mistake("the file of settings without --config", _last_line("run", "bridge.toml"), "bridge run --help shows"),
    Mistake("a codec that is none", _last_line("run", BRIDGE_CODEC="rust"), "none of auto, native"),
]
