"""The exact setting or command that mends each finding, in words for an operator."""

from collections.abc import Sequence

from bridge.config import RetentionSettings


def broker_conf(lines: Sequence[str]) -> str:
    return "set in every broker's broker.conf and restart it: " + "   ".join(lines)


def index_remedy(missing: Sequence[str]) -> str:
    return f"the broker does not show entries' index, from which Kafka offsets come: {broker_conf(missing)}"


def retention_command(namespace: str, wanted: RetentionSettings) -> str:
    time = "-1" if wanted.minutes < 0 else f"{wanted.minutes}m"
    size = "-1" if wanted.megabytes < 0 else f"{wanted.megabytes}M"
    return f"pulsar-admin namespaces set-retention {namespace} --time {time} --size {size}"


def keep_topics_command(namespace: str) -> str:
    return (
        f"pulsar-admin namespaces set-inactive-topic-policies {namespace} --disable-delete-while-inactive "
        "--max-inactive-duration 1h --delete-mode delete_when_no_subscriptions"
    )
