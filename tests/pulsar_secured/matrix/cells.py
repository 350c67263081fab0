"""The dimensions of the matrix, and its answers: a letter for each thing that may be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.secured_pulsar import ADMIN

FILE: Final = Path(__file__).with_name("matrix.json")
DOES: Final = {
    "P": "produce", "F": "fetch", "C": "create a topic", "D": "delete a topic", "L": "see the topic",
    "G": "delete a group",
}  # fmt: skip
ALL: Final = "".join(DOES)
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "open": {"authenticationEnabled": "false", "authorizationEnabled": "false"},
    "authentication only": {"authorizationEnabled": "false"},
    "authorization": {"proxyRoles": ""},
    "proxy roles": {},
    "anonymous role": {"proxyRoles": "", "anonymousUserRole": "anonymous"},
    "behind a proxy": {},
}
"""Of Pulsar, over the settings of `SecuredPulsar`; where bridges are proxies themselves, and where a real one is."""
BEHIND: Final = "behind a proxy"
WAYS: Final = ("nothing", "token", "certificate", "OAuth2")
"""In which the bridge logs in."""
AUTHORIZERS: Final = ("none", "kafka", "pulsar")
RIGHTS: Final[Mapping[str, str]] = {
    "no right": "stranger", "produce": "producer", "consume": "consumer", "both": "both", "admin": "owner",
    "super": ADMIN,
}  # fmt: skip
"""Each with the role that has it: nothing else, in the bridge's namespace; administrator of its tenant; of all."""
BY_ENTRIES: Final = {"no right": "", "produce": "PL", "consume": "FLG", "both": "PFLG", "admin": ALL, "super": ALL}
"""What Kafka's entries give who has the same rights there."""

Answers = dict[str, str]
"""By right."""


def kept() -> dict[str, dict[str, Answers | str]]:
    """By kind of Pulsar, and then by log-in and authorizer, or "Pulsar itself"; a text where no bridge starts."""
    found: dict[str, dict[str, Answers | str]] = json.loads(FILE.read_text("utf-8"))
    return found


def table() -> str:
    """For the page."""
    told = ", ".join(f"{letter} {what}" for letter, what in DOES.items())
    rows = [f"| Pulsar | bridge by | authorizer | {' | '.join(RIGHTS)} |", "|---|---|---|" + "---|" * len(RIGHTS)]
    for kind, of_kind in kept().items():
        for name, answers in of_kind.items():
            if isinstance(answers, dict):
                cells = [answers[right] or "–" for right in RIGHTS]
            else:
                cells = [f"does not start: {answers}", *[""] * (len(RIGHTS) - 1)]
            rows.append(f"| {kind} | {name} | {' | '.join(cells)} |")
    return f"{told}; – nothing.\n\n" + "\n".join(rows)
