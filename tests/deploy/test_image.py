"""The image: what hadolint says of the Dockerfile, and in `make soak` the image, built and run without Docker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from bridge import __version__
from bridge.cli.command import main
from bridge.standalone.ports import any_free
from tests.deploy.images import Images
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COPIED = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)).split()


def hadolint(text: str) -> subprocess.CompletedProcess[str]:
    """What hadolint, of requirements/dev.lock, says of a Dockerfile."""
    command = [str(Path(sys.executable).with_name("hadolint")), "--no-color", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_hadolint_finds_no_mistake() -> None:
    said = hadolint(DOCKERFILE)
    assert said.returncode == 0, said.stdout
    assert "DL3002" in hadolint(DOCKERFILE.replace("USER 10001:10001", "USER root")).stdout


def test_the_build_gets_what_it_copies_and_little_else() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert lines[1] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == set(COPIED)


def test_its_health_check_is_a_command_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(r"^HEALTHCHECK .*\\\n  CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    program, command, option, file = json.loads(text)
    assert f'ENTRYPOINT ["{program}"]' in DOCKERFILE
    assert f'"{option}", "{file}"]' in DOCKERFILE.partition("ENTRYPOINT")[2]
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert option in capsys.readouterr().out


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Images]:
    made = Images(tmp_path)
    yield made
    made.remove()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_image_is_built_and_serves_clients_with_a_read_only_root(
    pulsar: PulsarAddress, namespace: str, images: Images
) -> None:
    images.make_bases()
    image = images.build(ROOT)
    tenant, _, name = namespace.partition("/")
    kafka, http = f"127.0.0.1:{any_free()}", f"127.0.0.1:{any_free()}"
    given = {
        "BRIDGE_KAFKA_LISTEN": kafka, "BRIDGE_HTTP_LISTEN": http, "BRIDGE_PULSAR_SERVICE_URL": pulsar.service_url,
        "BRIDGE_PULSAR_ADMIN_URL": pulsar.admin_url, "BRIDGE_PULSAR_TENANT": tenant, "BRIDGE_PULSAR_NAMESPACE": name,
    }  # fmt: skip
    assert image.run("--version") == f"bridge {__version__} (native codec)\n"
    assert "Read-only file system" in image.run(program=("/bin/sh", "-c", "echo > /etc/bridge/new 2>&1; id -u; true"))
    # OpenShift's: a number without a name, in group 0
    assert "fit" in image.run("check", "--offline", "--config", "/etc/bridge/bridge.toml", user="1000650000:0")
    assert image.run(program=("bridge", "--version"), user="1000650000:0") == image.run("--version")
    with image.started(given) as process:
        assert until(lambda: image.healthy(given), 60)
        with KafkaProducer(bootstrap_servers=kafka) as producer:
            assert producer.send("image", b"value").get(30).offset == 0
        consumer = KafkaConsumer("image", bootstrap_servers=kafka, auto_offset_reset="earliest")
        assert next(consumer).value == b"value"
        consumer.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not image.healthy(given)
