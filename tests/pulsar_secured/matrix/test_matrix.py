"""Where Pulsar decides, no bridge gives a role more than Pulsar itself. `pytest -m soak` asks all, and writes it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.errors import BridgeError
from bridge.node.orphans import Guard
from tests.pulsar_secured.matrix.cells import (
    ALL,
    AUTHORIZERS,
    BEHIND,
    BY_ENTRIES,
    FILE,
    KINDS,
    RIGHTS,
    WAYS,
    Answers,
    kept,
    table,
)
from tests.pulsar_secured.matrix.matrix import Matrix, more_than
from tests.support import identity_page
from tests.support.certificates import Authority
from tests.support.pages import between
from tests.support.pulsar import NewPulsar
from tests.support.pulsar_proxy import PulsarProxy, proxy_jars
from tests.support.secured_pulsar import SecuredPulsar

NATIVE = "Pulsar itself | "


@pytest.mark.parametrize("by_proxy", [False, True], ids=["token", "proxy"])
def test_a_bridge_gives_what_pulsar_gives(secured: SecuredPulsar, tmp_path: Path, by_proxy: bool) -> None:
    matrix = Matrix(secured, tmp_path)
    namespace = matrix.tenant(grants=True)
    native = matrix.native(namespace)
    answers = matrix.through(namespace, "token", "pulsar", by_proxy=by_proxy)
    assert not more_than(answers, native), (answers, native)
    assert answers == kept()["proxy roles" if by_proxy else "authorization"]["token | pulsar"]


def test_the_page_has_what_was_found() -> None:
    page = identity_page
    assert between(page.PAGE, page.BEGIN, page.END) == table(), "python -m tests.support.identity_page"


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_every_bridge_on_every_pulsar(new_pulsar: NewPulsar, guard: Guard, tmp_path: Path, kind: str) -> None:
    authority = Authority(tmp_path)
    with SecuredPulsar(new_pulsar, KINDS[kind], authority) as secured, ExitStack() as stack:
        proxy = None
        if kind == BEHIND:
            behind = secured.behind_proxy(authority)
            proxy = stack.enter_context(PulsarProxy(behind, tmp_path / "proxy", guard, proxy_jars()))
        found = every_bridge(Matrix(secured, tmp_path, authority, proxy), kind)
    native = found[NATIVE]
    assert isinstance(native, dict)
    for name, answers in found.items():
        authorizer = name.rpartition(" | ")[2]
        if isinstance(answers, str):
            continue
        if authorizer == "pulsar":
            assert not more_than(answers, native), (name, answers)
        elif authorizer in ("none", "kafka"):
            assert answers == (dict.fromkeys(RIGHTS, ALL) if authorizer == "none" else BY_ENTRIES), name
    whole = kept() if FILE.exists() else {}
    whole[kind] = found
    FILE.write_text(json.dumps({one: whole[one] for one in KINDS if one in whole}, indent=1) + "\n")


def every_bridge(matrix: Matrix, kind: str) -> dict[str, Answers | str]:
    """What each lets each role do, and Pulsar itself."""
    judges = "authorizationEnabled" not in KINDS[kind]
    namespace = matrix.tenant(grants=judges)
    found: dict[str, Answers | str] = {NATIVE: matrix.native(namespace)}
    for way in WAYS:
        for authorizer in AUTHORIZERS:
            namespace = matrix.tenant(grants=judges)
            try:
                answers = matrix.through(namespace, way, authorizer, by_proxy=kind == "proxy roles")
            except BridgeError as error:
                found[f"{way} | {authorizer}"] = reason(str(error))
            else:
                found[f"{way} | {authorizer}"] = answers
    return found


def reason(text: str) -> str:
    """The first of the sentences, without what differs by chance."""
    for known in (
        "signed by no key", "does not say whose a token is", "not authorized", "Unable to authenticate",
        "No anonymous role", "Failed to authenticate",
    ):  # fmt: skip
        if known in text:
            return known
    return text
