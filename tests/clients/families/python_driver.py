"""The driver of kafka-python 2.x: runs where `kafka` is that version, reads a command a line, prints answers and
events as the Java driver does."""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import threading
from typing import Any

from tests.clients.families.kafka_python_2 import KafkaPython2
from tests.clients.families.remote import decode, encode
from tests.clients.members import Joining, Member
from tests.clients.model import At, Draft, Record, Refused, UnknownTopic

UNKNOWN_TOPIC_OR_PARTITION = 3


class PythonDriver:
    """Commands by their names."""

    def __init__(self, client: KafkaPython2) -> None:
        self._client = client
        self._members: dict[str, Member] = {}
        self._alone = threading.Lock()

    def serve(self) -> None:
        """Answer until the input ends."""
        for line in sys.stdin:
            command = json.loads(line)
            operation = command.pop("op")
            try:
                answer = {"result": self._run(operation, command)}
            except UnknownTopic as error:
                answer = {"error": "UnknownTopic", "message": str(error), "code": UNKNOWN_TOPIC_OR_PARTITION}
            except Refused as error:
                answer = {"error": "Refused", "message": str(error), "code": error.code}
            except Exception as error:  # noqa: BLE001 — told to the test, which fails
                answer = {"error": type(error).__name__, "message": str(error)}
            self._print(answer)
        for member in self._members.values():
            member.leave()

    def _run(self, operation: str, command: dict[str, Any]) -> Any:
        if operation.startswith("member-"):
            return self._of_member(operation, **command)
        if operation in ("write", "read", "ends", "time", "group", "group-offsets"):
            return getattr(self, "_" + operation.replace("-", "_"))(**command)
        if "offsets" in command:
            command["offsets"] = {int(partition): offset for partition, offset in command["offsets"].items()}
        names = {"create": "create_topic", "delete": "delete_topic", "list": "topics", "describe": "partitions"}
        method = getattr(self._client, names.get(operation, operation.replace("-", "_")))
        result = method(*command.values())
        return sorted(result) if isinstance(result, set) else result

    def _of_member(self, operation: str, member: str, **joining: Any) -> None:
        if operation == "member-join":
            started = self._client.member(Joining(**joining))
            self._members[member] = started
            started.tell = lambda event: self._print({"member": member, **event})
            started.start()
        elif operation == "member-commit":
            self._members[member].commit()
        else:
            self._members.pop(member).leave()

    def _write(self, topic: str, codec: Any, records: list[dict[str, Any]]) -> list[tuple[int, int, int | None]]:
        drafts = [_draft(fields) for fields in records]
        return [(done.partition, done.offset, done.timestamp) for done in self._client.write(topic, drafts, codec)]

    def _read(self, topic: str, starts: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = {int(p): At(start["time"]) if isinstance(start, dict) else start for p, start in starts.items()}
        return [_fields(record) for record in self._client.read(topic, wanted)]

    def _ends(self, topic: str, partition: int) -> tuple[int, int]:
        return self._client.beginning_and_end(topic, partition)

    def _time(self, topic: str, partition: int, timestamp: int) -> int | None:
        return self._client.offset_for_time(topic, partition, timestamp)

    def _group(self, group: str) -> tuple[str, Any]:
        found = self._client.group(group)
        return found.state, found.members

    def _group_offsets(self, group: str) -> list[tuple[str, int, int]]:
        return [(topic, p, offset) for (topic, p), offset in self._client.group_offsets(group).items()]

    def _print(self, line: dict[str, Any]) -> None:
        with self._alone:
            print(json.dumps(line), flush=True)


def _draft(fields: dict[str, Any]) -> Draft:
    headers = tuple((name, decode(value)) for name, value in fields["headers"])
    key, value = decode(fields["key"]), decode(fields["value"])
    return Draft("", value, key, headers, fields["timestamp"], fields["partition"])


def _fields(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": encode(record.key),
        "value": encode(record.value),
        "headers": [[name, encode(value)] for name, value in record.headers],
    }


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    PythonDriver(KafkaPython2(sys.argv[1])).serve()
