"""Kafka's group configs: which there are, which values they take, and what holds for a group now.

What a client has set for a group is kept in the log that all nodes read, as quotas are. Bounds and texts are those of
Kafka's GroupConfig.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.config_table import Config, ConfigSupport, ConfigType
from bridge.storage.topics.configs import ConfigEntry, ConfigSource, checked_value

CONSUMER_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
CONSUMER_SESSION: Final = "consumer.session.timeout.ms"
SHARE_ASSIGNMENT: Final = "share.assignment.interval.ms"
SHARE_DELIVERIES: Final = "share.delivery.count.limit"
SHARE_HEARTBEAT: Final = "share.heartbeat.interval.ms"
SHARE_ISOLATION: Final = "share.isolation.level"
SHARE_LOCK: Final = "share.record.lock.duration.ms"
SHARE_LOCKS: Final = "share.partition.max.record.locks"
SHARE_RENEWS: Final = "share.renew.acknowledge.enable"
SHARE_RESET: Final = "share.auto.offset.reset"
SHARE_SESSION: Final = "share.session.timeout.ms"
STREAMS_ASSIGNMENT: Final = "streams.assignment.interval.ms"
STREAMS_DELAY: Final = "streams.initial.rebalance.delay.ms"
STREAMS_HEARTBEAT: Final = "streams.heartbeat.interval.ms"
STREAMS_SESSION: Final = "streams.session.timeout.ms"
STREAMS_STANDBYS: Final = "streams.num.standby.replicas"

BY_DURATION: Final = "by_duration:"
_SESSIONS: Final = (
    (CONSUMER_SESSION, CONSUMER_HEARTBEAT),
    (SHARE_SESSION, SHARE_HEARTBEAT),
    (STREAMS_SESSION, STREAMS_HEARTBEAT),
)
_MOST: Final = {STREAMS_STANDBYS: "group.streams.max.standby.replicas"}
"""Bounds that are not named as the others are."""
_MOST_LETTERS: Final = 64
"""Of a duration."""
_DURATION: Final = re.compile(
    r"\+?P(?:\+?(\d+)D)?(?:T(?=\+?\d)(?:\+?(\d+)H)?(?:\+?(\d+)M)?(?:\+?(\d+)(?:[.,](\d{0,9}))?S)?)?", re.I | re.ASCII
)


class GroupConfigs:
    """The configs of the groups of one namespace."""

    def __init__(self, settings: GroupSettings, kept: Callable[[str], Mapping[str, str]] = lambda group_id: {}) -> None:
        """`kept`: what was set for a group, as far as this node has read it."""
        self._table = {config.name: config for config in _table(settings)}
        self._bounds = _bounds(settings)
        self._kept = kept

    def value(self, group_id: str, name: str) -> str:
        """What holds for a group; its default also where what was set is not understood here."""
        own = self._kept(group_id).get(name)
        if own is not None:
            try:
                return self._checked(name, own)
            except KafkaError:  # a newer node took it
                pass
        return self._table[name].default or ""

    def number(self, group_id: str, name: str) -> int:
        """The same of a config that is a number."""
        return int(self.value(group_id, name))

    def own(self, group_id: str) -> dict[str, str]:
        """What was set for a group."""
        return dict(self._kept(group_id))

    def check(self, group_id: str, wanted: Mapping[str, str | None]) -> dict[str, str]:
        """The configs as they are kept; INVALID_CONFIG where a group cannot have them.

        What stays as it was is not looked at: it may be older than a bound, or of a newer node.
        """
        present, kept = self._kept(group_id), dict[str, str]()
        for name, value in wanted.items():
            if value is None:
                raise _invalid(f"Null value not supported for group configs: {name}")
            kept[name] = value if present.get(name) == value else self._checked(name, value)
        for session, heartbeat in _SESSIONS:
            both = [int(kept.get(name, self._table[name].default or "")) for name in (session, heartbeat)]
            if both[0] <= both[1]:
                raise _invalid(f"{session} must be greater than {heartbeat}")
        return kept

    def describe(self, group_id: str) -> list[ConfigEntry]:
        """Every config with what holds for the group, by name."""
        own = self._kept(group_id)
        return sorted(self._entry(config, group_id, config.name in own) for config in self._table.values())

    def _entry(self, config: Config, group_id: str, is_own: bool) -> ConfigEntry:
        value, name = self.value(group_id, config.name), config.name
        default = (config.broker_name, config.default or "", ConfigSource.STATIC_BROKER)
        synonyms = ((name, value, ConfigSource.GROUP), default) if is_own else (default,)
        return ConfigEntry(name, value, False, synonyms[0][2], config.type, config.documentation, synonyms)

    def _checked(self, name: str, value: str) -> str:
        config = self._table.get(name)
        if config is None:
            raise _invalid(f"Unknown group config name: {name}")
        checked = checked_value(config, value)
        if name in self._bounds:
            self._check_bounds(name, int(checked))
        return checked

    def _check_bounds(self, name: str, value: int) -> None:
        kind, _, rest = name.partition(".")
        least, most = self._bounds[name]
        if value < least:
            raise _invalid(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
        if value > most:
            raise _invalid(f"{name} must be less than or equal to {_MOST.get(name, f'group.{kind}.max.{rest}')}")


def duration_ms(text: str) -> int | None:
    """The milliseconds of a duration as `java.time.Duration` reads it; None if it is none, negative, or too long."""
    found = _DURATION.fullmatch(text) if len(text) <= _MOST_LETTERS else None
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction = (found[5] or "").ljust(3, "0")[:3]
    found_ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + int(fraction)
    return found_ms if found_ms < 1 << 63 else None


def _reset_fault(text: str) -> str | None:
    """Why it is no place to begin at (`ShareGroupAutoOffsetResetStrategy`)."""
    if text in ("earliest", "latest") or (
        text.startswith(BY_DURATION) and duration_ms(text.removeprefix(BY_DURATION)) is not None
    ):
        return None
    return (
        f"Invalid value `{text}` for configuration {SHARE_RESET}. The value must be either 'earliest', 'latest' or of "
        "the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _table(groups: GroupSettings) -> Sequence[Config]:
    def config(name: str, type: ConfigType, default: object, documentation: str, **fields: Any) -> Config:
        shown = str(default)
        bounds = {"minimum": 1} | fields
        return Config(name, type, ConfigSupport.APPLIED, documentation, f"group.{name}", shown, **bounds)

    int_, string, boolean = ConfigType.INT, ConfigType.STRING, ConfigType.BOOLEAN
    return (
        config(CONSUMER_HEARTBEAT, int_, groups.consumer_heartbeat_interval_ms,
               "How often members send a heartbeat. The bridge's setting groups.consumer_heartbeat_interval_ms holds "
               "where a group has none."),
        config(CONSUMER_SESSION, int_, groups.consumer_session_timeout_ms,
               "After how long without a heartbeat members are removed. The bridge's setting "
               "groups.consumer_session_timeout_ms holds where a group has none."),
        config(SHARE_ASSIGNMENT, int_, 1_000,
               "How long it is at least between two assignments of a share group's partitions to its members.",
               minimum=0),
        config(SHARE_RESET, string, "latest",
               "Where a share group begins to read a partition: earliest, latest, or by_duration: and how long ago "
               "(ISO 8601).", fault=_reset_fault),
        config(SHARE_DELIVERIES, int_, 5, "How often a record is delivered at most."),
        config(SHARE_HEARTBEAT, int_, 5_000, "How often members of a share group send a heartbeat."),
        config(SHARE_ISOLATION, string, "read_uncommitted",
               "Whether records of open and aborted transactions are delivered.",
               choices=("read_committed", "read_uncommitted")),
        config(SHARE_LOCKS, int_, 2_000, "How many records of a partition may be delivered and not settled."),
        config(SHARE_LOCK, int_, 30_000, "For how long a delivered record is its consumer's."),
        config(SHARE_RENEWS, boolean, "true",
               "Whether a consumer may prolong the time for which a record is its own."),
        config(SHARE_SESSION, int_, 45_000,
               "After how long without a heartbeat members of a share group are removed."),
        config(STREAMS_ASSIGNMENT, int_, 1_000,
               "How long it is at least between two assignments of a streams group's tasks to its members.",
               minimum=0),
        config(STREAMS_HEARTBEAT, int_, groups.consumer_heartbeat_interval_ms,
               "How often members of a streams group send a heartbeat. The bridge's setting "
               "groups.consumer_heartbeat_interval_ms holds where a group has none."),
        config(STREAMS_DELAY, int_, 3_000,
               "For how long a streams group that was empty waits for more members before it gives out tasks.",
               minimum=0),
        config(STREAMS_STANDBYS, int_, 0, "How many standby replicas each task with state has.", minimum=0),
        config(STREAMS_SESSION, int_, groups.consumer_session_timeout_ms,
               "After how long without a heartbeat members of a streams group are removed. The bridge's setting "
               "groups.consumer_session_timeout_ms holds where a group has none."),
    )  # fmt: skip


def _bounds(groups: GroupSettings) -> dict[str, tuple[int, int]]:
    """The bounds of numbers, by name: the defaults of Kafka's, moved so far that the bridge's setting is within."""
    heartbeat, session = groups.consumer_heartbeat_interval_ms, groups.consumer_session_timeout_ms
    return {
        CONSUMER_HEARTBEAT: (min(5_000, heartbeat), max(15_000, heartbeat)),
        CONSUMER_SESSION: (min(45_000, session), max(60_000, session)),
        SHARE_ASSIGNMENT: (0, 15_000),
        SHARE_DELIVERIES: (2, 10),
        SHARE_HEARTBEAT: (5_000, 15_000),
        SHARE_LOCKS: (100, 4_000),
        SHARE_LOCK: (15_000, 60_000),
        SHARE_SESSION: (45_000, 60_000),
        STREAMS_ASSIGNMENT: (0, 15_000),
        STREAMS_HEARTBEAT: (min(5_000, heartbeat), max(15_000, heartbeat)),
        STREAMS_SESSION: (min(45_000, session), max(60_000, session)),
        STREAMS_STANDBYS: (0, 2),
    }


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)
