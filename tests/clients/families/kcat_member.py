"""kcat as a member of a group: `kcat -G`, which commits what it read when it is told to end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading

from tests.clients.members import Joining, Member
from tests.clients.model import TIMEOUT_SECONDS
from tests.support.programs import require

_REBALANCED = re.compile(r"% Group .* rebalanced .*: (assigned|revoked): (.*)$")
_PARTITION = re.compile(r"\[(\d+)\]")


class KcatMember(Member):
    """A kcat process; its records come on the output, its rebalances are told on the other one."""

    def __init__(self, bootstrap: str, joining: Joining) -> None:
        super().__init__(joining)
        kcat = require("kcat")
        settings = {
            "auto.offset.reset": joining.reset,
            "heartbeat.interval.ms": str(joining.heartbeat_ms),
            "session.timeout.ms": str(joining.session_ms),
        }
        if joining.instance is not None:
            settings["group.instance.id"] = joining.instance
        options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        self._process = subprocess.Popen(
            [kcat, "-b", bootstrap, "-u", "-J", *options, "-G", joining.group, joining.topic],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._records, self._rebalances)]
        for thread in self._threads:
            thread.start()

    def commit(self) -> None:
        """kcat cannot be asked to."""
        raise NotImplementedError

    def leave(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(TIMEOUT_SECONDS) == 0
        self._let_go()

    def kill(self) -> None:
        """End without a word to the group."""
        self._process.kill()
        self._process.wait(TIMEOUT_SECONDS)
        self._let_go()

    def _let_go(self) -> None:
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        self.on({"ended": True})

    def _records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fields = json.loads(line)
            self.on({"read": [(fields["partition"], fields["offset"], fields["payload"])]})

    def _rebalances(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            found = _REBALANCED.search(line.decode(errors="replace").rstrip())
            if found:
                held = [int(each) for each in _PARTITION.findall(found[2])] if found[1] == "assigned" else []
                self.on({"held": held})
