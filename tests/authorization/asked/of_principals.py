"""Principals: what they may do, their credentials, tokens and quotas, and a log-in when they are logged in."""

from __future__ import annotations

from bridge.apis import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import USER
from tests.clients.refusals import cluster, security

ROWS = [
    Row(describe_acls.API, "of a topic", lambda w: security.granted("mine-topic"), since=1),
    Row(create_acls.API, "for no principal of these", lambda w: security.grant("no-topic", "no-other-topic"), since=1),
    Row(delete_acls.API, "of no topic", lambda w: security.take("mine-topic-without-entries"), since=1),
    Row(describe_user_scram_credentials.API, "unknown user", lambda w: security.users(USER)),
    Row(alter_user_scram_credentials.API, "unknown user", lambda w: security.credentials(drop=(USER,))),
    Row(create_delegation_token.API, "of oneself",
        lambda w: create_delegation_token.Request(renewers=[], max_lifetime_ms=-1)),
    Row(renew_delegation_token.API, "unknown", lambda w: renew_delegation_token.Request(hmac=b"x", renew_period_ms=1)),
    Row(expire_delegation_token.API, "unknown",
        lambda w: expire_delegation_token.Request(hmac=b"x", expiry_time_period_ms=1)),
    Row(describe_delegation_token.API, "all", lambda w: describe_delegation_token.Request(owners=None)),
    Row(describe_client_quotas.API, "of a user", lambda w: cluster.limits("user", USER), since=0),
    Row(alter_client_quotas.API, "of a user", lambda w: cluster.limit("user", USER, "producer_byte_rate", 1000),
        since=0),
    Row(sasl_handshake.API, "once more", lambda w: sasl_handshake.Request(mechanism="PLAIN")),
    Row(sasl_authenticate.API, "without a handshake", lambda w: sasl_authenticate.Request(auth_bytes=b"\0x\0y")),
]  # fmt: skip
