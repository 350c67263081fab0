"""The Helm chart, by what was rendered of it: valid for Kubernetes, and what the bridge itself takes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bridge import __version__
from bridge.config import Settings, load
from bridge.http.access import OPEN_PATHS
from bridge.node.server import DRAIN_SECONDS
from tests.deploy.helm import CHART, RENDERINGS
from tests.deploy.manifests import VERSIONS, Manifest, container, manifests, validate
from tests.support.certificates import Authority
from tests.support.sources import ROOT

SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
KINDS = {
    "ConfigMap", "Headless", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet",
}  # fmt: skip
DASHBOARDS = {path.stem: path for path in (ROOT / "config" / "grafana" / "dashboards").glob("*.json")}
MONITORING = {
    "ServiceMonitor", "PrometheusRule", *(name.replace("bridge-", "bridge-dashboard-") for name in DASHBOARDS),
}  # fmt: skip
each = pytest.mark.parametrize("name", sorted(RENDERINGS))
OUTSIDE = {
    "default": set(),
    "full": {f"bridge-{pod}-outside" for pod in range(5)},
    "openshift": {"bridge-0-outside", "bridge-1-outside"},
}


def pod(name: str) -> Manifest:
    return dict(manifests(name)["StatefulSet"]["spec"]["template"])


@each
def test_it_was_rendered_of_the_chart_as_it_is(name: str) -> None:
    first = RENDERINGS[name].file.read_text("utf-8").partition("\n")[0]
    assert first + "\n" == RENDERINGS[name].first_line, "write it again: make helm"


@each
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_it(name: str, version: str) -> None:
    optional = {"full": MONITORING, "openshift": set()}.get(name, set())
    left_out = {"NetworkPolicy"} if name == "openshift" else set()
    assert set(manifests(name)) == KINDS - left_out | optional | OUTSIDE[name]
    for one in manifests(name).values():
        validate(one, version)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("StatefulSet", ("replicas",), "three"),
        ("StatefulSet", ("template", "spec", "securityContexts"), {}),
        ("Service", ("ports", 0, "port"), "kafka"),
        ("NetworkPolicy", ("ingress", 0, "form"), []),
        ("PodDisruptionBudget", ("maxUnavailable",), {}),
        ("ServiceMonitor", ("endpoints", 0, "intervall"), "15s"),
        ("PrometheusRule", ("groups", 0, "rules", 0, "expr"), None),
    ],
)
def test_a_mistake_would_be_seen(kind: str, path: tuple[str | int, ...], value: object) -> None:
    wrong = copy.deepcopy(manifests("full")[kind])
    part = wrong["spec"]
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(ValueError, match=r"\S"):
        validate(wrong, VERSIONS[-1])


def test_the_values_fit_their_schema_and_all_of_them_are_in_it() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(DEFAULTS, SCHEMA)
    assert set(SCHEMA["properties"]) - {"global"} == set(DEFAULTS)
    full = RENDERINGS["full"].values
    assert full is not None
    jsonschema.validate(yaml.safe_load(full.read_text("utf-8")) | {"http": DEFAULTS["http"]}, SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 3},
        {"replicas": 0},
        {"listeners": []},
        {"listeners": [{"name": "plain", "protocol": "PLAINTEXT", "port": 9092}]},
        {"listeners": [{"name": "PLAIN", "protocol": "PLAINTEXT", "port": 92}]},
        {"pulsar": {**DEFAULTS["pulsar"], "serviceUrl": "http://pulsar"}},
        {"secretMounts": [{"name": "users", "mountPath": "/etc/bridge/users"}]},
        {"terminationGracePeriodSeconds": 10},
        {"image": {"repository": "bridge", "digest": "0123"}},
        {"outside": {"type": "ClusterIP"}},
        {"outside": {"firstNodePort": 31095}},
        {"prometheusRule": {"runbooks": "docs/"}},
        {"prometheusRule": {"runbooks": "https://wiki.example/bridge/"}},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DEFAULTS, **wrong}, SCHEMA)


@each
def test_the_bridge_takes_its_settings(name: str, tmp_path: Path) -> None:
    signed, authority = Authority(tmp_path).sign("node"), tmp_path / "authority.pem"
    secret = tmp_path / "secret"
    secret.write_text("a-token-of-some-length\n", encoding="utf-8")
    places = {
        "tls/tls.crt": signed.certificate, "tls/tls.key": signed.key, "pulsar-ca/ca.crt": str(authority),
        "pulsar-token/token": str(secret), "metrics-token/token": str(secret), "users/users": str(tmp_path / "users"),
    }  # fmt: skip
    (tmp_path / "users").touch()

    def here(text: str) -> str:
        for place, path in places.items():
            text = text.replace(f"/etc/bridge-secrets/{place}", path)
        for variable, value in {"POD_NAME": "bridge-2", "POD_INDEX": "2", "HOST_IP": "192.0.2.7"}.items():
            text = text.replace(f"$({variable})", value)
        return text

    file = tmp_path / "bridge.toml"
    file.write_text(here(manifests(name)["ConfigMap"]["data"]["bridge.toml"]), encoding="utf-8")
    given = {one["name"]: here(one["value"]) for one in container(name)["env"] if "value" in one}
    settings = load(file, given)
    assert settings.cluster.name == "bridge-2"
    hosts = re.findall(r"//([^,]+)", settings.kafka.advertised_listeners)
    inside = "bridge-2.bridge-nodes.kafka.svc.cluster.local:9092"
    outside = {"full": ["bridge-2.kafka.example:9093"], "openshift": ["192.0.2.7:31192"]}.get(name, [])
    assert sorted(hosts) == sorted([inside, *outside])
    assert settings.http.has_tls == (name == "full")


@each
def test_what_refers_to_another_finds_it(name: str) -> None:
    all_of_it, labels = manifests(name), pod(name)["metadata"]["labels"]
    stateful = all_of_it["StatefulSet"]["spec"]
    assert stateful["serviceName"] == all_of_it["Headless"]["metadata"]["name"]
    budget = all_of_it["PodDisruptionBudget"]["spec"]
    policies = [one["spec"] for kind, one in all_of_it.items() if kind == "NetworkPolicy"]
    for selector in (
        stateful["selector"]["matchLabels"], budget["selector"]["matchLabels"],
        *(policy["podSelector"]["matchLabels"] for policy in policies),
        all_of_it["Service"]["spec"]["selector"], all_of_it["Headless"]["spec"]["selector"],
    ):  # fmt: skip
        assert selector.items() <= labels.items()
    assert all_of_it["Headless"]["spec"]["publishNotReadyAddresses"] is True
    ports = {port["containerPort"] for port in container(name)["ports"]}
    for policy in policies:
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports
    assert {port["port"] for port in all_of_it["Headless"]["spec"]["ports"]} == ports
    assert pod(name)["spec"]["serviceAccountName"] == all_of_it["ServiceAccount"]["metadata"]["name"]


@pytest.mark.parametrize("name", ["full", "openshift"])
def test_each_pod_has_a_service_of_its_own_for_clients_outside(name: str) -> None:
    listener, labels = (
        {"full": ("sasl-ssl", 9093), "openshift": ("outside", 9094)}[name],
        pod(name)["metadata"]["labels"],
    )
    assert len(OUTSIDE[name]) == manifests(name)["StatefulSet"]["spec"]["replicas"]
    for service in OUTSIDE[name]:
        spec, this = manifests(name)[service]["spec"], service.removesuffix("-outside")
        assert spec["selector"] == {
            **{key: labels[key] for key in manifests(name)["Service"]["spec"]["selector"]},
            "statefulset.kubernetes.io/pod-name": this,
        }
        (port,) = spec["ports"]
        assert (port["name"], port["port"], port["targetPort"]) == (*listener, listener[1])
        assert spec["externalTrafficPolicy"] == "Local"
        assert spec["publishNotReadyAddresses"] is True
        if name == "full":
            assert spec["type"] == "LoadBalancer"
            assert spec["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
            (told,) = manifests(name)[service]["metadata"]["annotations"].values()
            assert told == f"{this}.kafka.example"
        else:
            assert spec["type"] == "NodePort"
            assert port["nodePort"] == 31190 + int(this.removeprefix("bridge-"))


def test_what_an_address_is_made_of_is_known_before_it() -> None:
    variables = [one["name"] for one in container("openshift")["env"]]
    (advertised,) = (one for one in container("openshift")["env"] if one["name"] == "BRIDGE_KAFKA_ADVERTISED_LISTENERS")
    used = re.findall(r"\$\((\w+)\)", advertised["value"])
    assert {"POD_INDEX", "HOST_IP"} <= set(used) <= set(variables[: variables.index(advertised["name"])])
    assert not {"POD_INDEX", "HOST_IP"} & {one["name"] for one in container("full")["env"]}


def test_openshift_chooses_the_user() -> None:
    assert "runAsUser" in pod("full")["spec"]["securityContext"]
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(pod("openshift")["spec"]["securityContext"])


@pytest.mark.parametrize(
    ("name", "warnings"),
    [
        ("default", ["PLAINTEXT is PLAINTEXT", "every pod, and whoever else", "port 7092 is open"]),
        ("full", ["INSIDE is PLAINTEXT"]),
        (
            "openshift",
            ["INSIDE is SASL_PLAINTEXT", "OUTSIDE is SASL_PLAINTEXT", "enabled is false", "port 7092 is open"],
        ),
    ],
)
def test_who_installs_it_is_warned_of_what_is_open(name: str, warnings: list[str]) -> None:
    told = [line for line in RENDERINGS[name].notes.read_text("utf-8").splitlines() if line.startswith("WARNING: ")]
    assert len(told) == len(warnings)
    for line, warning in zip(told, warnings, strict=True):
        assert warning in line


def test_prometheus_finds_each_node_under_the_name_that_alerts_ask_for() -> None:
    monitor, headless = manifests("full")["ServiceMonitor"]["spec"], manifests("full")["Headless"]
    assert monitor["selector"]["matchLabels"].items() <= headless["metadata"]["labels"].items()
    assert not monitor["selector"]["matchLabels"].items() <= manifests("full")["Service"]["metadata"]["labels"].items()
    assert {one["port"] for one in monitor["endpoints"]} <= {port["name"] for port in headless["spec"]["ports"]}
    assert headless["metadata"]["labels"][monitor["jobLabel"]] == "bridge"
    assert 'job="bridge"' in (ROOT / "config" / "alerts.yml").read_text("utf-8")
    alerts = yaml.safe_load((ROOT / "config" / "alerts.yml").read_text("utf-8"))
    for rule in (rule for group in alerts["groups"] for rule in group["rules"] if "alert" in rule):
        page = rule["annotations"].pop("runbook").removeprefix("docs")
        rule["annotations"]["runbook_url"] = f"https://wiki.example/bridge{page}"
    assert manifests("full")["PrometheusRule"]["spec"] == alerts


def test_each_dashboard_is_a_config_map_that_grafanas_sidecar_finds() -> None:
    assert {path.name for path in (CHART / "files" / "dashboards").iterdir()} == {f"{name}.json" for name in DASHBOARDS}
    for name, path in DASHBOARDS.items():
        made = manifests("full")[name.replace("bridge-", "bridge-dashboard-")]
        assert made["metadata"]["namespace"] == "monitoring"
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(made["data"][path.name]) == json.loads(path.read_text("utf-8"))


@each
def test_the_pod_may_do_what_the_restricted_standard_lets_it(name: str) -> None:
    # Pod Security Standards, profile "restricted"; and a root file system that is read-only
    spec, one = pod(name)["spec"], container(name)
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert {kind for volume in spec["volumes"] for kind in volume} - {"name"} <= {"configMap", "secret", "emptyDir"}
    assert not spec["automountServiceAccountToken"]
    if name == "openshift":
        return
    (user,) = re.findall(r"^USER (\d+):\1$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == int(user)


@each
def test_every_mount_has_a_volume_and_none_lies_within_another(name: str) -> None:
    mounts = container(name)["volumeMounts"]
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in pod(name)["spec"]["volumes"]}
    paths = [mount["mountPath"] for mount in mounts]
    assert not [(one, other) for one in paths for other in paths if other.startswith(f"{one}/")]
    assert not [mount for mount in mounts if "subPath" in mount]


@each
def test_probes_ask_what_is_served_and_a_stop_has_the_time_it_takes(name: str) -> None:
    probes = [container(name)[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")]
    assert {probe["path"] for probe in probes} == OPEN_PATHS
    assert {probe["scheme"] for probe in probes} == {"HTTPS" if name == "full" else "HTTP"}
    takes = DRAIN_SECONDS + Settings().cluster.drain_seconds
    assert pod(name)["spec"]["terminationGracePeriodSeconds"] > takes
    assert SCHEMA["properties"]["terminationGracePeriodSeconds"]["minimum"] > takes


def test_the_chart_has_the_version_of_the_bridge() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__
    assert container("default")["image"] == f"{DEFAULTS['image']['repository']}:{__version__}"
    assert re.fullmatch(r"registry\.example/bridge:1\.0\.0@sha256:[0-9a-f]{64}", container("full")["image"])
