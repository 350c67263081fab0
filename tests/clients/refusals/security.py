"""Who is who and may do what: where nobody logs in."""

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

PIN: list[str] = []
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
    values = {"iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32, **fields}
    return alter_user_scram_credentials.Request(
        deletions=[alter_user_scram_credentials.Deletion(name=name, mechanism=mechanism) for name in drop],
        upsertions=[alter_user_scram_credentials.Upsertion(name=name, mechanism=mechanism, **values) for name in put],
    )


USERS, CREDENTIALS = describe_user_scram_credentials.API, alter_user_scram_credentials.API

CASES = [
    Case("one", create_acls.API, lambda w: grant(w.topic), PIN),
    Case("two", create_acls.API, lambda w: grant(w.topic, "*"), PIN),
    Case("none", create_acls.API, lambda w: grant(), PIN),
    Case("one", delete_acls.API, lambda w: take(w.topic), PIN),
    Case("all", delete_acls.API, lambda w: take(None), PIN),
    Case("of a topic", describe_acls.API, lambda w: granted(w.topic), PIN),
    Case("all", describe_acls.API, lambda w: granted(None), PIN),
    #
    Case("unknown user", USERS, lambda w: users("nobody"), PIN),
    Case("user named twice", USERS, lambda w: users("nobody", "nobody"), PIN),
    Case("user without a name", USERS, lambda w: users(""), PIN),
    Case("all", USERS, lambda w: users(), PIN),
    Case("unknown user", CREDENTIALS, lambda w: credentials(drop=("nobody",)), PIN),
    Case("unknown user, twice", CREDENTIALS, lambda w: credentials(drop=("nobody", "nobody")), PIN),
    Case("user without a name", CREDENTIALS, lambda w: credentials(drop=("",)), PIN),
    Case("unknown mechanism, deleted", CREDENTIALS, lambda w: credentials(drop=("nobody",), mechanism=9), PIN),
    Case("unknown mechanism", CREDENTIALS, lambda w: credentials(put=(w.missing,), mechanism=9), PIN),
    Case("too few iterations", CREDENTIALS, lambda w: credentials(put=(w.missing,), iterations=1), PIN),
    Case("too many iterations", CREDENTIALS, lambda w: credentials(put=(w.missing,), iterations=1 << 30), PIN),
    Case("new user without a name", CREDENTIALS, lambda w: credentials(put=("",)), PIN),
    Case("deleted and put", CREDENTIALS, lambda w: credentials(drop=(w.missing,), put=(w.missing,)), PIN),
    Case("user named twice", CREDENTIALS, lambda w: credentials(put=(w.missing, w.missing)), PIN),
    Case("new user", CREDENTIALS, lambda w: credentials(put=(w.missing,)), PIN),
    #
    Case("any", create_delegation_token.API, lambda w: create_delegation_token.Request(renewers=[], max_lifetime_ms=-1), PIN),
    Case("any", renew_delegation_token.API, lambda w: renew_delegation_token.Request(hmac=b"x", renew_period_ms=1), PIN),
    Case("any", expire_delegation_token.API,
         lambda w: expire_delegation_token.Request(hmac=b"x", expiry_time_period_ms=1), PIN),
    Case("all", describe_delegation_token.API, lambda w: describe_delegation_token.Request(owners=None), PIN),
    #
    Case("plain", sasl_handshake.API, lambda w: sasl_handshake.Request(mechanism="PLAIN"), PIN),
    Case("plain, v0", sasl_handshake.API, lambda w: sasl_handshake.Request(mechanism="PLAIN"), PIN, version=0),
    Case("without a handshake", sasl_authenticate.API, lambda w: sasl_authenticate.Request(auth_bytes=b"\0x\0y"), PIN),
]  # fmt: skip
