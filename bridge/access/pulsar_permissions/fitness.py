"""Whether a Pulsar can say who clients are and what they may: what `kafka.authorizer = "pulsar"` needs of it."""

import base64
import json
import secrets
from typing import Final, NamedTuple

from bridge.access.pulsar_permissions.token_login import claims_of, role_in
from bridge.config import PulsarSettings, Settings
from bridge.pulsar import Access
from bridge.pulsar.auth import Destination, RoleAccess
from bridge.pulsar.auth.credentials import StaticToken, TokenFile
from bridge.pulsar.role_name import RightUnknown, role_name
from bridge.pulsar.role_probe import Right, RoleProbe
from bridge.pulsar.types import PulsarError
from bridge.telemetry.metrics import PulsarMetrics


class Problem(NamedTuple):
    """Why the bridge's own role cannot do its work, and what to do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}. {self.remedy[0].upper()}{self.remedy[1:]}"


_LETS_IN: Final = Problem(
    "Pulsar lets in a client whose token was signed by no key",
    "set authenticationEnabled=true, authorizationEnabled=true, and authenticationProviders to"
    " org.apache.pulsar.broker.authentication.AuthenticationProviderToken in broker.conf,"
    ' or kafka.authorizer = "kafka"',
)
_WITHOUT_CERTIFICATE: Final = (
    "where Pulsar asks all for certificates, set tlsRequireTrustedClientCertOnConnect=false in broker.conf,"
    ' or kafka.authorizer = "kafka"'
)
_TO_BE_TOLD: Final = (
    "set authorizationEnabled=true in broker.conf. Behind a Pulsar proxy, or where its version does not, set"
    " pulsar.token_public_key_file to what brokers have as tokenPublicKey"
)
_SAME_CLAIM: Final = (
    "set pulsar.token_auth_claim to what brokers have as tokenAuthClaim. Behind a Pulsar proxy, set"
    " pulsar.token_public_key_file to what they have as tokenPublicKey, too"
)
_SPEAKS_FOR_NONE: Final = (
    "name it in the brokers' proxyRoles, and let the bridge connect to the brokers themselves: a Pulsar proxy does not"
    " pass on for whom it speaks. Or take pulsar.proxy_token_file out: clients then log in with tokens of their own"
)


async def problem(settings: Settings, access: Access) -> Problem | None:
    """None: nothing. `access`: the bridge's own."""
    pulsar = settings.pulsar
    stranger = RoleProbe(RoleAccess(Destination(pulsar, access.hosts), StaticToken(_unsigned())))
    try:
        if await stranger.log_in():
            return _LETS_IN
    except RightUnknown as error:
        return Problem(
            f"Pulsar cannot be asked by a client with a token and no certificate ({error})", _WITHOUT_CERTIFICATE
        )
    finally:
        await stranger.close()
    if found := await _problem_of_proxy(pulsar, access):
        return found
    takes_tokens = any("PLAIN" in listener.mechanisms for listener in settings.listeners)
    if pulsar.token_public_key_file or not takes_tokens:
        return None
    return await _problem_of_names(settings, access)


async def _problem_of_proxy(pulsar: PulsarSettings, access: Access) -> Problem | None:
    """Whether the bridge may speak for others: here for a role that has no rights."""
    if not pulsar.proxy_token_file:
        return None
    token = TokenFile(pulsar.proxy_token_file, PulsarMetrics())
    probe = RoleProbe(RoleAccess(Destination(pulsar, access.hosts), token, _random_role()))
    try:
        await probe.may(Right.LIST, f"persistent://{pulsar.full_namespace}/any")
    except RightUnknown as error:
        return Problem(f"the role of pulsar.proxy_token_file may not speak for others ({error})", _SPEAKS_FOR_NONE)
    finally:
        await probe.close()
    return None


async def _problem_of_names(settings: Settings, access: Access) -> Problem | None:
    """Whether Pulsar says who a client is: this bridge is one of them."""
    pulsar = settings.pulsar
    try:
        told = await role_name(pulsar, access)
        token = await access.credentials.data()
    except PulsarError as error:
        return Problem(f"Pulsar does not say whose a token is ({error})", _TO_BE_TOLD)
    if told.name is None:
        return Problem(f"Pulsar does not say whose a token is ({told.said})", _TO_BE_TOLD)
    claims = claims_of(token.decode("latin-1"))
    said = role_in(claims, pulsar.token_auth_claim)
    if claims and said != told.name:
        claim = pulsar.token_auth_claim
        what = f"Pulsar takes this bridge for {told.name!r}, and the claim {claim} of its token says {said!r}"
        return Problem(what, _SAME_CLAIM)
    return None


def _unsigned() -> str:
    """A token that says to be signed by no key (RFC 7519, 6), of a role that is none."""
    parts = {"alg": "none"}, {"sub": _random_role()}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def _random_role() -> str:
    return f"bridge-probe-{secrets.token_hex(16)}"
