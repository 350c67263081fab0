"""Principals and what they may do, without logins."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from tests.clients.refusals.case import Case

ANY, TOPIC, READ, ALLOW = 1, 2, 3, 3
SHA_256 = 1


def grant(*topics: str, operation: int = READ) -> Any:
    """A CreateAcls."""
    return create_acls.Request(creations=[
        create_acls.Creation(
            resource_type=TOPIC, resource_name=topic, principal="User:x", host="*", operation=operation,
            permission_type=ALLOW,
        )
        for topic in topics
    ])  # fmt: skip


def take(topic: str | None) -> Any:
    """A DeleteAcls."""
    return delete_acls.Request(filters=[
        delete_acls.Filter(
            resource_type_filter=TOPIC, resource_name_filter=topic, principal_filter=None, host_filter=None,
            operation=ANY, permission_type=ANY,
        )
    ])  # fmt: skip


def granted(topic: str | None) -> Any:
    """A DescribeAcls."""
    return describe_acls.Request(
        resource_type_filter=TOPIC, resource_name_filter=topic, principal_filter=None, host_filter=None,
        operation=ANY, permission_type=ANY,
    )  # fmt: skip


def users(*names: str) -> Any:
    """A DescribeUserScramCredentials."""
    wanted = [describe_user_scram_credentials.User(name=name) for name in names]
    return describe_user_scram_credentials.Request(users=wanted)


def credentials(
    *, drop: tuple[str, ...] = (), put: tuple[str, ...] = (), mechanism: int = SHA_256, **fields: Any
) -> Any:
    """An AlterUserScramCredentials."""
    values = {"iterations": 4096, "salt": b"salt of twelve bytes or more", "salted_password": b"p" * 32, **fields}
    return alter_user_scram_credentials.Request(
        deletions=[alter_user_scram_credentials.Deletion(name=name, mechanism=mechanism) for name in drop],
        upsertions=[alter_user_scram_credentials.Upsertion(name=name, mechanism=mechanism, **values) for name in put],
    )


USERS, CREDENTIALS = describe_user_scram_credentials.API, alter_user_scram_credentials.API

CASES = [
    Case("one", create_acls.API, lambda w: grant(w.topic), "SECURITY_DISABLED: No Authorizer is configured."),
    Case("two", create_acls.API, lambda w: grant(w.topic, "*"),
         "SECURITY_DISABLED: No Authorizer is configured. | SECURITY_DISABLED: No Authorizer is configured."),
    Case("none", create_acls.API, lambda w: grant(), "NONE"),
    Case("one", delete_acls.API, lambda w: take(w.topic), "SECURITY_DISABLED: No Authorizer is configured."),
    Case("all", delete_acls.API, lambda w: take(None), "SECURITY_DISABLED: No Authorizer is configured."),
    Case("of a topic", describe_acls.API, lambda w: granted(w.topic),
         "SECURITY_DISABLED: No Authorizer is configured on the broker"),
    Case("all", describe_acls.API, lambda w: granted(None),
         "SECURITY_DISABLED: No Authorizer is configured on the broker"),
    #
    Case("unknown user", USERS, lambda w: users("unknown"),
         "RESOURCE_NOT_FOUND: Attempt to describe a user credential that does not exist: unknown"),
    Case("user named twice", USERS, lambda w: users("unknown", "unknown"),
         "DUPLICATE_RESOURCE: Cannot describe SCRAM credentials for the same user twice in a single request: unknown"),
    Case("user without a name", USERS, lambda w: users(""),
         "RESOURCE_NOT_FOUND: Attempt to describe a user credential that does not exist: "),
    Case("all", USERS, lambda w: users(), "NONE"),
    Case("unknown user", CREDENTIALS, lambda w: credentials(drop=("unknown",)),
         "RESOURCE_NOT_FOUND: Attempt to delete a user credential that does not exist"),
    Case("unknown user, twice", CREDENTIALS, lambda w: credentials(drop=("unknown", "unknown")),
         "RESOURCE_NOT_FOUND: Attempt to delete a user credential that does not exist"),
    Case("user without a name", CREDENTIALS, lambda w: credentials(drop=("",)),
         "UNACCEPTABLE_CREDENTIAL: Username must not be empty"),
    Case("unknown mechanism, deleted", CREDENTIALS, lambda w: credentials(drop=("unknown",), mechanism=9),
         "UNSUPPORTED_SASL_MECHANISM: Unknown SCRAM mechanism"),
    Case("unknown mechanism", CREDENTIALS, lambda w: credentials(put=(w.missing,), mechanism=9),
         "UNSUPPORTED_SASL_MECHANISM: Unknown SCRAM mechanism"),
    Case("too few iterations", CREDENTIALS, lambda w: credentials(put=(w.missing,), iterations=1),
         "UNACCEPTABLE_CREDENTIAL: Too few iterations"),
    Case("too many iterations", CREDENTIALS, lambda w: credentials(put=(w.missing,), iterations=1 << 30),
         "UNACCEPTABLE_CREDENTIAL: Too many iterations"),
    Case("new user without a name", CREDENTIALS, lambda w: credentials(put=("",)),
         "UNACCEPTABLE_CREDENTIAL: Username must not be empty"),
    Case("deleted and put", CREDENTIALS, lambda w: credentials(drop=(w.missing,), put=(w.missing,)),
         "RESOURCE_NOT_FOUND: Attempt to delete a user credential that does not exist"),
    Case("user named twice", CREDENTIALS, lambda w: credentials(put=(w.missing, w.missing)),
         "DUPLICATE_RESOURCE: A user credential cannot be altered twice in the same request"),
    Case("new user", CREDENTIALS, lambda w: credentials(put=(w.missing,)), "NONE",
         ours="UNSUPPORTED_SASL_MECHANISM: The users of this cluster are not kept in Pulsar: they are in "
         "security.password_file, or do not log in.", why="no listener has a log-in"),
    #
    Case("any", create_delegation_token.API, lambda w: create_delegation_token.Request(renewers=[], max_lifetime_ms=-1),
         "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    Case("any", renew_delegation_token.API, lambda w: renew_delegation_token.Request(hmac=b"x", renew_period_ms=1),
         "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    Case("any", expire_delegation_token.API, lambda w: expire_delegation_token.Request(hmac=b"x",
         expiry_time_period_ms=1), "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    Case("all", describe_delegation_token.API, lambda w: describe_delegation_token.Request(owners=None),
         "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    #
    Case("plain", sasl_handshake.API, lambda w: sasl_handshake.Request(mechanism="PLAIN"), "ILLEGAL_SASL_STATE"),
    Case("plain, v0", sasl_handshake.API, lambda w: sasl_handshake.Request(mechanism="PLAIN"), "ILLEGAL_SASL_STATE",
         version=0),
    Case("without a handshake", sasl_authenticate.API, lambda w: sasl_authenticate.Request(auth_bytes=b"\0x\0y"),
         "ILLEGAL_SASL_STATE: SaslAuthenticate request received after successful authentication"),
]  # fmt: skip
