"""Log-in by a token of Pulsar's: PLAIN with the password `token:<JWT>`, as clients of Kafka-on-Pulsar have it."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from bridge.access.pulsar_permissions.permissions import PulsarPermissions
from bridge.access.pulsar_permissions.roles import Role
from bridge.access.pulsar_permissions.token_key import TokenKey
from bridge.pulsar.role_name import RightUnknown
from bridge.security.names import prepared_name
from bridge.security.principal import user
from bridge.security.sasl.credentials import CredentialsUnavailable, LoginAttempt, Passwords

PREFIX: Final = "token:"


class TokenPasswords:
    """Pulsar itself says whether a token is good, and whose it is; or a key proves whose."""

    def __init__(
        self,
        permissions: PulsarPermissions,
        namespace: str,
        others: Passwords | None = None,
        *,
        any_user_name: bool = False,
        claim: str = "sub",
        key: TokenKey | None = None,
    ) -> None:
        """`namespace`: `tenant/namespace`; `others`: for passwords that are no tokens; `any_user_name`: rules of
        tenants judge the names; `claim`: what brokers have as `tokenAuthClaim`; `key`: which has signed tokens."""
        self._permissions = permissions
        self._any_user_name = any_user_name
        self._places = (namespace, namespace.partition("/")[0])
        self._others = others
        self._claim = claim
        self._key = key

    async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
        """The role of the token. The user name is that role, or where KoP's users have tenant or tenant/namespace."""
        if not password.startswith(PREFIX):
            return None if self._others is None else await self._others.check(name, password, now)
        token = password.removeprefix(PREFIX)
        claims = claims_of(token)
        role, end = role_in(claims, self._claim), claims.get("exp")
        if role is None or prepared_name(role) != role:
            return None
        if not self._any_user_name and name not in (role, *self._places):
            return None
        if end is not None and not (isinstance(end, int | float) and end > now):
            return None
        if self._key is not None and not self._key.has_signed(token):
            return None
        try:
            if not await self._permissions.log_in(Role(role, token), is_proven=self._key is not None):
                return None
        except RightUnknown as error:
            raise CredentialsUnavailable(str(error)) from None
        return LoginAttempt(user(role), end, token)


def role_in(claims: Mapping[str, Any], claim: str) -> str | None:
    """The role that these claims name: of several the first, as Pulsar reads them (AuthenticationProviderToken)."""
    role = claims.get(claim)
    if isinstance(role, list) and role:
        role = role[0]
    return role if isinstance(role, str) else None


def claims_of(token: str) -> dict[str, Any]:
    """What a token says of itself; nothing is proved by it."""
    try:
        _, claims, _ = token.encode("ascii").split(b".")
        found = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
