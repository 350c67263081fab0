"""The chart by Helm itself; it is built by Go where it is not installed, so only in `make soak`."""

from __future__ import annotations

import pytest

from tests.deploy import helm
from tests.deploy.helm import RENDERINGS

pytestmark = pytest.mark.soak


def test_helm_finds_no_mistake() -> None:
    helm.lint()
    helm.lint([one.values for one in RENDERINGS.values() if one.values is not None])


@pytest.mark.parametrize("name", sorted(RENDERINGS))
def test_it_renders_what_is_here(name: str) -> None:
    assert helm.render(RENDERINGS[name]) == RENDERINGS[name].file.read_text("utf-8")
    assert helm.notes(RENDERINGS[name]) == RENDERINGS[name].notes.read_text("utf-8")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("--set=replica=3", "replica"),
        ("--set=http.tls=true", "http.tls needs tlsSecret"),
        ("--set=outside.listener=OUTSIDE", "there is no listener OUTSIDE"),
        ("--set=outside.listener=PLAINTEXT", "needs an `advertised` with"),
        ("--set=outside.listener=PLAINTEXT,outside.type=NodePort,replicas=11", "at most 10 replicas"),
        ("--set=listeners[0].name=TLS,listeners[0].protocol=SSL,listeners[0].port=9093", "listeners with TLS need"),
    ],
)
def test_wrong_values_are_refused(wrong: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        helm.render(RENDERINGS["default"], wrong)
