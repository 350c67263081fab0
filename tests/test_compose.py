"""The compose file and the image: no engine runs here, so they are held against the schema and what they name."""

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bridge.check.facts import INDEX_SETTINGS
from bridge.cli.command import main
from bridge.config import Address, load
from bridge.standalone.jars import PULSAR_VERSION

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
PROMETHEUS: dict[str, Any] = yaml.safe_load((ROOT / "config" / "prometheus.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BRIDGES = [name for name in SERVICES if name.startswith("bridge")]


def schema() -> dict[str, Any]:
    """The Compose Specification's own schema, as the development tool check-jsonschema carries it."""
    text = resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def container_ports(service: str) -> set[int]:
    return {int(port.rsplit(":", 1)[1]) for port in SERVICES[service]["ports"]}


def pulsar_settings() -> dict[str, str]:
    environment: dict[str, str] = SERVICES["pulsar"]["environment"]
    prefix = "PULSAR_PREFIX_"
    return {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}


def shipped_conf() -> dict[str, str]:
    text = resources.files("bridge.standalone").joinpath("pulsar.conf").read_text(encoding="utf-8")
    lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


@pytest.mark.parametrize("name", ["docker-compose.yml", "docker-compose.secured.yml"])
def test_it_follows_the_compose_specification(name: str) -> None:
    jsonschema.validate(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")), schema())


def test_a_mistake_would_be_seen() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**COMPOSE, "services": {"bridge": {"imagee": "x"}}}, schema())


def test_the_files_it_mounts_exist_and_its_volumes_are_declared() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), (name, source)
            else:
                assert source in COMPOSE["volumes"], (name, source)


@pytest.mark.parametrize("name", BRIDGES)
def test_the_bridges_accept_the_settings_they_are_given(name: str) -> None:
    environment: dict[str, str] = SERVICES[name]["environment"]
    settings = load(ROOT / "config" / "bridge.toml", environment)
    outside, inside = settings.listeners
    served = {outside.listen.port, Address.parse(settings.http.listen).port}
    assert container_ports(name) <= served
    assert outside.told(outside.listen.port) == Address(
        "localhost", next(iter(container_ports(name) & served - {7092}))
    )
    assert inside.told(inside.listen.port) == Address(name, inside.listen.port)
    assert Address.parse(settings.cluster.internal_advertised).host == name
    assert settings.pulsar.service_url == "pulsar://pulsar:6650"
    assert settings.pulsar.admin_url == "http://pulsar:8080"
    assert container_ports("pulsar") == {6650, 8080}


def test_pulsar_gets_what_the_bridge_needs() -> None:
    given, ours = pulsar_settings(), shipped_conf()
    for line in INDEX_SETTINGS:
        name, _, value = line.partition("=")
        assert value in given[name].split(",")
    # advertisedAddress is the compose network's own; the rest is what `bridge standalone` runs with
    assert {name: ours[name] for name in given if name != "advertisedAddress"} == {
        name: value for name, value in given.items() if name != "advertisedAddress"
    }
    assert given["advertisedAddress"] in SERVICES
    assert SERVICES["pulsar"]["image"].partition("@")[0] == f"apachepulsar/pulsar:{PULSAR_VERSION}"
    assert "bin/apply-config-from-env.py conf/standalone.conf && exec bin/pulsar standalone" in str(
        SERVICES["pulsar"]["command"]
    )


def test_only_this_machine_can_reach_the_ports() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service["ports"])


def test_bridges_differ_in_their_addresses() -> None:
    for setting in ("KAFKA_ADVERTISED_LISTENERS", "CLUSTER_INTERNAL_ADVERTISED"):
        advertised = [SERVICES[name]["environment"][f"BRIDGE_{setting}"] for name in BRIDGES]
        assert len(set(advertised)) == len(BRIDGES)


@pytest.mark.parametrize("name", ["kafbat", "akhq"])
def test_what_runs_in_another_container_reaches_the_inside_listener(name: str) -> None:
    settings = load(ROOT / "config" / "bridge.toml", SERVICES["bridge"]["environment"])
    inside = next(one for one in settings.listeners if one.name == "INSIDE")
    assert str(inside.told(inside.listen.port)) in str(SERVICES[name]["environment"])
    assert "bridge" in SERVICES[name]["depends_on"]


def test_prometheus_scrapes_ports_that_are_served() -> None:
    targets = [
        target
        for job in PROMETHEUS["scrape_configs"]
        for one in job.get("static_configs", ())
        for target in one["targets"]
    ]
    for job in PROMETHEUS["scrape_configs"]:
        for one in job.get("dns_sd_configs", ()):
            targets += [f"{name}:{one['port']}" for name in one["names"]]
    for target in targets:
        address = Address.parse(target)
        if address.host in BRIDGES:
            assert SERVICES[address.host]["environment"]["BRIDGE_HTTP_LISTEN"] == f"0.0.0.0:{address.port}"
        else:
            assert address.port in container_ports(address.host), target
    assert {Address.parse(target).host for target in targets} == {*BRIDGES, "pulsar"}


def mounted(service: str) -> dict[str, str]:
    """What each path of a container is here."""
    pairs = (volume.split(":")[:2] for volume in SERVICES[service]["volumes"])
    return {inside: source for source, inside in pairs}


def test_prometheus_finds_the_alerts() -> None:
    directory = Path("/etc/prometheus")
    assert str(directory / "prometheus.yml") in mounted("prometheus")
    for file in PROMETHEUS["rule_files"]:
        assert mounted("prometheus")[str(directory / file)] == "./config/alerts.yml"


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    here = mounted("grafana")
    files = ROOT / here["/etc/grafana/provisioning"]
    (source,) = yaml.safe_load((files / "datasources" / "prometheus.yml").read_text("utf-8"))["datasources"]
    address = Address.parse(source["url"].removeprefix("http://"))
    assert address.port in container_ports(address.host)
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    (provider,) = yaml.safe_load((files / "dashboards" / "bridge.yml").read_text("utf-8"))["providers"]
    dashboards = ROOT / here[provider["options"]["path"]]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (dashboards / home.name).is_file()


def test_services_wait_for_services_that_exist() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_the_bridge_has_longer_to_stop_than_it_takes() -> None:
    from bridge.node.server import DRAIN_SECONDS

    assert int(SERVICES["bridge"]["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS


def test_the_image_copies_files_that_exist_and_opens_the_ports() -> None:
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    (ports,) = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert set(map(int, ports.split())) == container_ports("bridge")
    (minimum,) = re.findall(
        r">=(3\.\d+)", tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    )
    for version in re.findall(r"^FROM python:(3\.\d+)-", DOCKERFILE, re.MULTILINE):
        assert tuple(map(int, version.split("."))) >= tuple(map(int, minimum.split(".")))


def test_the_images_command_is_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    name, option, file = json.loads(command)
    assert (option, file) == ("--config", "/etc/bridge/bridge.toml")
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert option in capsys.readouterr().out
