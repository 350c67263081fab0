"""Metadata of a Kafka endpoint: topics, bounds, offsets at a time, committed offsets of groups."""

import logging
import re
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

from bridge.pipeline.errors import Endpoint, Usage
from bridge.pipeline.options import EndpointOptions, Position, Selection
from bridge.pipeline.plan import Bounds, resolve
from bridge.pipeline.ranges import Partition, TopicRange

_EARLIEST, _LATEST = -2, -1
_SOON_MS = 500
"""In which a server that is there usually answers; after that it is asked whether there is one."""
_CONNECT_SECONDS = 3.0
_LOADING = ("CoordinatorNotAvailableError", "CoordinatorLoadInProgressError", "NotCoordinatorError")
_LOADING_SECONDS = 30.0
_LOADING_PAUSE = 0.2


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    metadata: str


class KafkaEndpoint:
    """A connection for metadata; records go through Spark."""

    def __init__(self, options: EndpointOptions) -> None:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        self.options = options
        settings = client_settings(options.properties)
        self._isolation = 1 if options.isolation == "read_committed" else 0
        # its traces repeat the one line that the user gets, at length
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        servers = options.bootstrap.split(",")
        try:
            self._admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=_SOON_MS, **settings)
        except (KafkaError, OSError):
            # only now, for a connection without a request would be a failure in the log of a listener with TLS
            _refuse_unreachable(options.bootstrap)
            with self._one_line():
                self._admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=5_000, **settings)

    def __enter__(self) -> "KafkaEndpoint":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def cluster_id(self) -> str | None:
        """The cluster's own id, the same through every address."""
        with self._one_line():
            described: dict[str, Any] = self._admin.describe_cluster()
        return described.get("cluster_id")

    def ask(self, request: Any) -> Any:
        """The answer to one of kafka-python's protocol messages."""
        with self._one_line():
            return self._admin._manager.run(self._admin._manager.send, request)

    def topics(self) -> set[str]:
        """Every topic."""
        with self._one_line():
            return set(self._admin.list_topics())

    def partitions(self, topics: Collection[str]) -> dict[str, list[int]]:
        """The partitions of topics that exist."""
        if not topics:
            return {}
        with self._one_line():
            described = self._admin.describe_topics(sorted(topics))
        return {
            each["name"]: sorted(partition["partition_index"] for partition in each["partitions"]) for each in described
        }

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, with the cluster's default number of replicas."""
        with self._one_line():
            self._admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)

    def bounds(self, topics: Collection[str]) -> dict[Partition, Bounds]:
        """What each partition holds now."""
        keys = [
            Partition(topic, number) for topic, numbers in self.partitions(topics).items() for number in numbers
        ]  # fmt: skip
        earliest, latest = self._offsets(keys, _EARLIEST), self._offsets(keys, _LATEST)
        return {key: Bounds(earliest[key] or 0, latest[key] or 0) for key in keys}

    def ends(self, keys: Collection[Partition]) -> dict[Partition, int]:
        """Where these partitions end now."""
        return {key: offset or 0 for key, offset in self._offsets(keys, _LATEST).items()}

    def at(self, position: Position, keys: Collection[Partition]) -> dict[Partition, int | None]:
        """The first offsets at a position that is a time; nothing for others."""
        return {} if position.time is None else self._offsets(keys, position.time)

    def ranges(self, chosen: Selection, bounds: Mapping[Partition, Bounds]) -> list[TopicRange]:
        """The ranges of a selection, now."""
        at_start, at_until = self.at(chosen.start, bounds.keys()), self.at(chosen.until, bounds.keys())
        return resolve(bounds, chosen.start, chosen.until, at_start, at_until)

    def groups(self) -> list[str]:
        """Every group's id."""
        with self._one_line():
            return sorted(group["group_id"] for group in self._admin.list_groups())

    def active_groups(self) -> set[str]:
        """The ids of groups that have members, or are taken for other things than offsets."""
        with self._one_line():
            found = self._admin.list_groups()
        return {one["group_id"] for one in found if one.get("group_state", "").lower() not in ("", "empty", "dead")}

    def committed(self, group: str) -> dict[Partition, Committed]:
        """The committed offsets of a group."""
        with self._one_line():
            found = self._once_loaded(lambda: self._admin.list_group_offsets(group)[group])
        return {
            Partition(key.topic, key.partition): Committed(value.offset, value.metadata or "")
            for key, value in found.items()
            if value.offset >= 0
        }

    def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Commit for a group that has no members now."""
        for key, refusal in self.try_commit(group, offsets).items():
            raise Endpoint(f"{self.options.bootstrap}: cannot commit for group {group}, {key}: {refusal}")

    def try_commit(self, group: str, offsets: Mapping[Partition, Committed]) -> dict[Partition, str]:
        """The same; the names of the errors of those that were refused."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        values = {
            TopicPartition(key.topic, key.number): OffsetAndMetadata(each.offset, each.metadata, -1)
            for key, each in offsets.items()
        }

        def commit() -> Any:
            results = self._admin.alter_group_offsets(group, values)
            for error in results.values():
                if error.__name__ in _LOADING:
                    raise error
            return results

        with self._one_line():
            results = self._once_loaded(commit)
        return {Partition(key.topic, key.partition): error.__name__ for key, error in results.items() if error.errno}

    def _offsets(self, keys: Collection[Partition], at: int) -> dict[Partition, int | None]:
        from kafka import TopicPartition

        if not keys:
            return {}
        with self._one_line():
            found = self._admin.list_partition_offsets({TopicPartition(*key): at for key in keys}, self._isolation)
        offsets = {Partition(key.topic, key.partition): value.offset for key, value in found.items()}
        return {key: offset if offset >= 0 else None for key, offset in offsets.items()}

    def _once_loaded(self, ask: Callable[[], Any]) -> Any:
        """What a coordinator answers; as long as it is chosen or loads, it is asked again, as Kafka's clients do."""
        from kafka.errors import KafkaError

        deadline = time.monotonic() + _LOADING_SECONDS
        while True:
            try:
                return ask()
            except KafkaError as error:
                if type(error).__name__ not in _LOADING or time.monotonic() > deadline:
                    raise
                self._admin._manager.cluster._coordinators.clear()
                time.sleep(_LOADING_PAUSE)

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """What the client raises, as one line that names the endpoint and holds no secret."""
        from kafka.errors import KafkaError

        try:
            yield
        except (KafkaError, OSError) as error:
            told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Endpoint(f"{self.options.bootstrap}: {told}") from None


def _refuse_unreachable(bootstrap: str) -> None:
    """Raise Endpoint where not one of the servers takes a connection."""
    failures = []
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            failures.append(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        else:
            return
    raise Endpoint(f"{bootstrap}: cannot be reached: {'; '.join(dict.fromkeys(failures))}")


# Properties of the connection, as kafka-python calls them; those that tune a Java client are Spark's alone.
_SAME = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "client.id": "client_id",
}
_PEM = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
}


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Kafka's client properties in kafka-python's words; Usage for a way to log in that it does not know."""
    settings: dict[str, Any] = {ours: properties[name] for name, ours in _SAME.items() if name in properties}
    for name, ours in _PEM.items():
        if name in properties:
            kind = properties.get(name.replace("location", "type"), "JKS")
            if kind.upper() != "PEM":
                raise Usage(f"{name} must be a PEM file here, with {name.replace('location', 'type')}=PEM")
            settings[ours] = properties[name]
    if "ssl_certfile" in settings:
        settings["ssl_keyfile"] = settings["ssl_certfile"]
        settings["ssl_password"] = properties.get("ssl.key.password")
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "":
        settings["ssl_check_hostname"] = False
    if "sasl.jaas.config" in properties:
        settings.update(_login(properties["sasl.jaas.config"]))
    return settings


def _login(jaas: str) -> dict[str, str]:
    found = {
        name: _unquoted(value) for name, value in re.findall(r'(username|password)\s*=\s*("(?:\\.|[^"\\])*")', jaas)
    }
    if found.keys() != {"username", "password"}:
        raise Usage("sasl.jaas.config must give username and password in quotes (PLAIN or SCRAM)")
    return {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
