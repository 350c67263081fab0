"""Which role Pulsar takes a caller for, in Pulsar's own words.

No request is for this. But one that claims to speak for another role is refused to all that are not among `proxyRoles`,
super-users included, and those are refused who speak for a role without rights. The refusal names who has asked. So we
claim to speak for a role that cannot exist.
"""

import re
import secrets
from typing import Final, NamedTuple

from bridge.config import PulsarSettings
from bridge.pulsar.admin.rest import AdminError, Forbidden, RestClient, path_of
from bridge.pulsar.auth import Access
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError

_REFUSAL: Final = (
    r"Unauthorized to validateTenantOperation for originalPrincipal \[{claimed}\] and clientAppId \[(.*)\]"
    r" about operation \[\w+\] on tenant \[{tenant}\]"
)
"""`PulsarWebResource.validateTenantOperationAsync`, whole: no part of a role's name passes for another part of it."""


class RightUnknown(PulsarError):
    """Pulsar cannot say now who a role is, or whether it may."""

    def __init__(self, reason: str) -> None:
        super().__init__(pb.ServiceNotReady, reason)


class Told(NamedTuple):
    """What Pulsar has said of a client's role."""

    name: str | None
    """None: it does not say who it is."""
    said: str


async def role_name(settings: PulsarSettings, access: Access) -> Told:
    """Ask as who has this access; RightUnknown while there is no answer."""
    claimed = f"bridge-probe-{secrets.token_hex(16)}"
    rest = RestClient(settings, access.naming(claimed))
    await rest.start()
    try:
        await rest.get(f"namespaces/{path_of(settings.tenant)}")
    except Forbidden as error:
        pattern = _REFUSAL.format(claimed=claimed, tenant=re.escape(settings.tenant))
        named = re.fullmatch(pattern, error.reason, re.DOTALL)
        return Told(named and named[1], error.reason)
    except AdminError as error:
        raise RightUnknown(str(error)) from None
    finally:
        await rest.close()
    return Told(None, "it lets any caller speak for any role")
