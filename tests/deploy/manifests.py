"""What was rendered of the chart, as objects, and the schemas that judge them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from tests.deploy.helm import HERE, RENDERINGS

Manifest = dict[str, Any]
VERSIONS = ("1.25", "1.30", "1.37")
"""Of Kubernetes: the oldest that the chart is for, one between, the newest whose schemas are here."""
OPERATOR: dict[str, Any] = json.loads((HERE / "operator.schema.json").read_text(encoding="utf-8"))
"""The schemas of the Prometheus Operator's kinds, which Kubernetes itself has none of."""


@functools.cache
def manifests(name: str) -> Mapping[str, Manifest]:
    """The objects of a rendering, by kind and, where there are several, name."""
    found: dict[str, Manifest] = {}
    for one in yaml.safe_load_all(RENDERINGS[name].file.read_text(encoding="utf-8")):
        headless = one["kind"] == "Service" and one["spec"].get("clusterIP") == "None"
        labels = one["metadata"]["labels"]
        several = "grafana_dashboard" in labels or labels.get("app.kubernetes.io/component") == "outside"
        found["Headless" if headless else one["metadata"]["name"] if several else one["kind"]] = one
    return found


def validate(one: Manifest, version: str) -> None:
    """Raise ValueError if it is not what Kubernetes, or the operator, takes; an unknown field is a mistake."""
    try:
        if one["kind"] in OPERATOR:
            jsonschema.validate(one, OPERATOR[one["kind"]])
        else:
            kubernetes_validate.validate(one, version, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        raise ValueError(str(error)) from None


def container(name: str) -> Manifest:
    """The bridge's container."""
    (found,) = manifests(name)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(found)
