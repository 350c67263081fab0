"""`bridge topic`, against a real bridge."""

import json
from collections.abc import Callable

from tests.apis.wire import unique
from tests.cli.kafka.conftest import Said
from tests.contract.log import Log
from tests.support.bridges import BridgeThread

Run = Callable[..., Said]


def test_a_topic_is_made_shown_changed_and_deleted(bridge: BridgeThread, run: Run) -> None:
    one, two = unique("topic"), unique("topic")
    at = ("--bootstrap", bridge.kafka)
    assert run("topic", "create", one, two, "--partitions", "3", "--set", "retention.ms=1000000", *at) == (
        0, [f"{one} created", f"{two} created"], "",
    )  # fmt: skip
    _, listed, _ = run("topic", "list", *at)
    assert {f"{one}  3", f"{two}  3"} <= {" ".join(line.split()).replace(" ", "  ") for line in listed}
    with Log(bridge.kafka, one) as log:
        log.write([b"a", b"b"])
    code, lines, _ = run("topic", "describe", one, "--json", *at)
    (told,) = json.loads("".join(lines))["topics"]
    assert (code, told["name"], told["configs"]) == (0, one, {"retention.ms": "1000000"})
    assert [(row["first_offset"], row["end_offset"]) for row in told["partitions"]] == [(0, 2), (0, 0), (0, 0)]
    assert run("topic", "grow", one, "5", *at) == (0, [f"{one} has 5 partitions"], "")
    assert run("topic", "config", one, "retention.ms=", "max.message.bytes=100000", *at) == (0, [f"{one} changed"], "")
    _, lines, _ = run("topic", "describe", one, *at)
    assert lines[1:3] == ["  max.message.bytes=100000", "partition  leader  first offset  end offset"]
    assert len(lines) == 3 + 5
    _, lines, _ = run("topic", "config", one, "--json", *at)
    configs = {row["name"]: row["source"] for row in json.loads("".join(lines))["configs"]}
    assert configs["max.message.bytes"] == "DYNAMIC_TOPIC_CONFIG"
    assert configs["retention.ms"] == "DEFAULT_CONFIG"
    assert run("topic", "delete", one, two, *at) == (0, [f"{one} deleted", f"{two} deleted"], "")


def test_what_is_refused_is_said_of_each_and_the_others_are_done(bridge: BridgeThread, run: Run) -> None:
    there, new = unique("topic"), unique("topic")
    at = ("--bootstrap", bridge.kafka)
    run("topic", "create", there, *at)
    code, lines, complaint = run("topic", "create", there, new, *at)
    assert (code, lines) == (1, [f"{new} created"])
    exists, hint = f"Topic '{there}' already exists.", "`bridge topic config` and `bridge topic grow` change it"
    assert complaint == f"bridge: {there}: TOPIC_ALREADY_EXISTS: {exists}; {hint}\n"
    code, _, complaint = run("topic", "config", there, "no.such=1", *at)
    assert (code, complaint) == (
        1,
        f"bridge: {there}: INVALID_CONFIG: Unknown topic config name: no.such; `bridge topic config TOPIC` shows all\n",
    )
    code, _, complaint = run("topic", "describe", unique("gone"), *at)
    assert code == 1
    assert "UNKNOWN_TOPIC_OR_PART" in complaint
    assert run("topic", "create", new, "--set", "retention.ms", *at)[::2] == (
        2, "bridge: 'retention.ms' is no NAME=VALUE\n",
    )  # fmt: skip
