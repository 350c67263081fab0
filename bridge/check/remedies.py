"""The exact setting or command that fixes each finding, in words for an operator."""

from collections.abc import Sequence

from bridge.config import RetentionSettings, Settings
from bridge.config.urls import url_without_secrets
from bridge.errors import BridgeError, StartupError
from bridge.pulsar import AdminError, PulsarError
from bridge.pulsar.admin import NO_RESPONSE
from bridge.pulsar.pb import PulsarApi_pb2 as pb

THE_BRIDGES = "<the bridge's>"
"""A role whose name is not known: the bridge does not log in, or its token names none."""
ADMIN_URL_REMEDY = "set pulsar.admin_url to a broker's web address, as a rule http://host:8080 or https://host:8443"

ADMIN_LOGIN_REMEDY = (
    "have it take the log-in that pulsar.service_url takes. A Pulsar proxy passes on a token, but a certificate only "
    "where it logs in to the brokers by one itself: in proxy.conf tlsEnabledWithBroker=true and "
    "brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationTls"
)


_SERVICE_URL_REMEDY = "set pulsar.service_url to a broker or proxy that runs"
_LOGIN_REMEDY = "set pulsar.token or pulsar.token_file to a valid token"
_AUTHORITY_REMEDY = "set pulsar.tls_ca_file to the authorities that signed the broker's certificate"


def refuses_login(error: BridgeError) -> bool:
    """Whether a broker was reached that does not let the bridge in."""
    return isinstance(error, PulsarError) and error.code in (pb.AuthenticationError, pb.AuthorizationError)


def service_remedy(error: BridgeError | OSError) -> str:
    """For a broker that cannot be connected to, or does not let the bridge in."""
    if isinstance(error, BridgeError) and refuses_login(error):
        return _LOGIN_REMEDY
    return _AUTHORITY_REMEDY if "CERTIFICATE_VERIFY_FAILED" in str(error) else _SERVICE_URL_REMEDY


def admin_failed(settings: Settings, error: AdminError) -> StartupError:
    """What a start says whose question to the admin interface has failed."""
    text = f"pulsar.admin_url {url_without_secrets(settings.pulsar.admin_url)}: {error}"
    return StartupError(f"{text}; {ADMIN_URL_REMEDY}" if error.status == NO_RESPONSE else text)


def broker_conf(lines: Sequence[str]) -> str:
    """What to put into the broker's configuration."""
    return "set in every broker's broker.conf and restart it: " + "   ".join(lines)


def index_remedy(missing: Sequence[str]) -> str:
    """For a broker that does not show the index."""
    return f"the broker does not show entries' index, from which Kafka offsets come: {broker_conf(missing)}"


def retention_command(namespace: str, wanted: RetentionSettings) -> str:
    """For a namespace that keeps nothing."""
    time = "-1" if wanted.minutes < 0 else f"{wanted.minutes}m"
    size = "-1" if wanted.megabytes < 0 else f"{wanted.megabytes}M"
    return f"pulsar-admin namespaces set-retention {namespace} --time {time} --size {size}"


def create_namespace_command(namespace: str) -> str:
    """For a namespace that is not there; Pulsar says the same where its tenant is not."""
    tenant = namespace.partition("/")[0]
    command = f"pulsar-admin namespaces create {namespace}"
    return (
        command if tenant == "public" else f"pulsar-admin tenants create {tenant}, unless it is there, then {command}"
    )


def administrator_command(tenant: str, role: str | None, method: str) -> str:
    """Makes it administer its tenant. Who else does is not always told to it, and the list is replaced.

    `method`: of the bridge's log-in. A Pulsar proxy has a certificate's requests judged by its own role as well.
    """
    proxy = "; behind a Pulsar proxy also its role" if method == "tls" else ""
    return (
        f"bin/pulsar-admin tenants update {tenant} --admin-roles '{role or THE_BRIDGES}'   (and, after commas, those "
        f"that it has already: bin/pulsar-admin tenants get {tenant}{proxy})"
    )


def keep_topics_command(namespace: str) -> str:
    """For a namespace whose unused topics are deleted."""
    return (
        f"pulsar-admin namespaces set-inactive-topic-policies {namespace} --disable-delete-while-inactive "
        "--max-inactive-duration 1h --delete-mode delete_when_no_subscriptions"
    )


def create_topics_command(topics: Sequence[str]) -> str:
    """For topics that a login may not create."""
    return "   ".join(f"pulsar-admin topics create {topic}" for topic in topics)


def topic_retention_command(topics: Sequence[str]) -> str:
    """For topics that need their records for an hour only."""
    return "   ".join(f"pulsar-admin topicPolicies set-retention {topic} --time 60m --size -1" for topic in topics)
