"""Group configs: which values they take, and what holds for a group."""

import pytest

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.groups.configs import (
    CONSUMER_SESSION,
    SHARE_LOCK,
    SHARE_RESET,
    SHARE_SESSION,
    STREAMS_STANDBYS,
    GroupConfigs,
    duration_ms,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import ConfigSource

GROUPS = Settings().with_values(groups={"consumer_session_timeout_ms": 50_000}).groups


def configs(**kept: dict[str, str]) -> GroupConfigs:
    return GroupConfigs(GROUPS, lambda group_id: kept.get(group_id, {}))


def test_without_its_own_a_group_has_the_bridges_settings_and_kafkas_defaults() -> None:
    found = {entry.name: (entry.value, entry.source, entry.read_only) for entry in configs().describe("g")}
    assert found[CONSUMER_SESSION] == ("50000", ConfigSource.STATIC_BROKER, False)
    assert found[SHARE_RESET] == ("latest", ConfigSource.STATIC_BROKER, False)
    assert [entry.name for entry in configs().describe("g")] == sorted(found)


def test_what_a_group_has_of_its_own_holds_for_it_alone_and_says_what_would_hold_otherwise() -> None:
    both = configs(g={SHARE_LOCK: "20000"})
    assert (both.number("g", SHARE_LOCK), both.number("h", SHARE_LOCK)) == (20_000, 30_000)
    (entry,) = (one for one in both.describe("g") if one.name == SHARE_LOCK)
    assert entry.source == ConfigSource.GROUP
    assert entry.synonyms == (
        (SHARE_LOCK, "20000", ConfigSource.GROUP),
        ("group." + SHARE_LOCK, "30000", ConfigSource.STATIC_BROKER),
    )


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        (SHARE_LOCK, " 15000 ", "15000"),
        (SHARE_RESET, "by_duration:PT1H", "by_duration:PT1H"),
        ("share.renew.acknowledge.enable", "FALSE", "false"),
        (CONSUMER_SESSION, "60000", "60000"),
        (STREAMS_STANDBYS, "2", "2"),
        ("streams.initial.rebalance.delay.ms", "0", "0"),
        ("share.assignment.interval.ms", "0", "0"),
    ],
)
def test_a_value_of_a_config_is_kept(name: str, value: str, kept: str) -> None:
    assert configs().check("g", {name: value}) == {name: kept}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (SHARE_LOCK, "14999", "must be greater than or equal to group.share.min.record.lock.duration.ms"),
        (SHARE_LOCK, "60001", "must be less than or equal to group.share.max.record.lock.duration.ms"),
        (SHARE_LOCK, "soon", "Not a number of type INT"),
        (SHARE_RESET, "none", "The value must be either 'earliest', 'latest' or of the format"),
        (SHARE_RESET, "by_duration:-PT1H", "The value must be either"),
        ("share.isolation.level", "serializable", "String must be one of"),
        (SHARE_LOCK, None, "Null value not supported"),
        (STREAMS_STANDBYS, "3", "must be less than or equal to group.streams.max.standby.replicas"),
        (STREAMS_STANDBYS, "-1", "Value must be at least 0"),
        ("streams.initial.rebalance.delay.ms", "-1", "Value must be at least 0"),
        ("streams.session.timeout.ms", "44999", "must be greater than or equal to group.streams.min.session.timeout"),
        ("streams.heartbeat.interval.ms", "15001", "must be less than or equal to group.streams.max.heartbeat"),
        ("no.such", "1", "Unknown group config name: no.such"),
    ],
)
def test_what_is_no_value_of_a_config_is_refused(name: str, value: str | None, text: str) -> None:
    with pytest.raises(KafkaError, match=text) as raised:
        configs().check("g", {name: value})
    assert raised.value.code == ErrorCode.INVALID_CONFIG


def test_a_session_is_longer_than_the_time_between_two_heartbeats() -> None:
    short = Settings().with_values(groups={"consumer_session_timeout_ms": 7000}).groups
    with pytest.raises(KafkaError, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        GroupConfigs(short).check("g", {"consumer.heartbeat.interval.ms": "7000"})


def test_what_a_newer_node_took_stays_and_the_default_holds_here() -> None:
    newer = configs(g={SHARE_SESSION: "90000", "share.of.tomorrow": "x"})
    assert newer.number("g", SHARE_SESSION) == 45_000
    assert newer.check("g", {**newer.own("g"), SHARE_LOCK: "20000"}) == {**newer.own("g"), SHARE_LOCK: "20000"}


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H30M", 5_400_000),
        ("P2DT0.5S", 2 * 86_400_000 + 500),
        ("pt15s", 15_000),
        ("PT1.0019S", 1001),
        ("PT", None),
        ("P", None),
        ("P1W", None),
        ("PT-1S", None),
        ("1h", None),
        ("PT9223372036854775S", 9_223_372_036_854_775_000),
        ("PT9223372036854776S", None),
        ("PT" + "9" * 5000 + "S", None),
    ],
)
def test_durations_are_those_of_java(text: str, milliseconds: int | None) -> None:
    assert duration_ms(text) == milliseconds
