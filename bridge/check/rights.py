"""Whether this login may produce and consume in a namespace: an entry is written there, and read back."""

from typing import Final

from bridge.check.facts import PROBE_TOPIC, probe_index
from bridge.check.findings import Finding, Severity
from bridge.check.remedies import THE_BRIDGES
from bridge.check.state_access import own_role
from bridge.config import Settings
from bridge.errors import BridgeError, StartupError
from bridge.pulsar import Admin, AdminError, PulsarClient, PulsarError
from bridge.pulsar.admin import Forbidden
from bridge.pulsar.pb import PulsarApi_pb2 as pb

_DENIED: Final = (pb.AuthenticationError, pb.AuthorizationError)


async def examine_rights(name: str, admin: Admin, client: PulsarClient, settings: Settings) -> Finding:
    """The finding of this name; `settings`: those of the namespace."""
    try:
        index = await probe_with_rights(admin, client, settings)
    except NotAllowed as error:
        return Finding(name, Severity.UNFIT, error.what, error.remedy)
    except BridgeError as error:
        return Finding(name, Severity.UNKNOWN, f"the probe entry failed: {error}")
    if index is None:
        return Finding(name, Severity.UNFIT, "entries come without their index")
    return Finding(name, Severity.FIT, f"an entry written to {PROBE_TOPIC} there came back")


async def probe_with_rights(admin: Admin, client: PulsarClient, settings: Settings) -> int | None:
    """As `probe_index`; NotAllowed where this login lacks a right."""
    try:
        return await probe_index(admin, client, settings)
    except PulsarError as error:
        if error.code not in _DENIED:
            raise
        role = await own_role(settings.pulsar, admin.access, None)
        proxy = settings.pulsar.state_roles.strip()
        if proxy and "," not in proxy and await _administers(admin, settings.pulsar.full_namespace):
            role = proxy  # an administrator may: it is the proxy that may not
        raise NotAllowed(settings.pulsar.full_namespace, role or THE_BRIDGES, error) from None


async def _administers(admin: Admin, namespace: str) -> bool:
    """Administrators alone may look at policies."""
    try:
        await admin.namespace_policies(namespace)
    except AdminError:
        return False
    return True


async def creation_refused(admin: Admin, namespace: str) -> Forbidden | None:
    """Why this login may not create topics there; None where it may, or that is not known."""
    try:
        await admin.create_non_partitioned(f"persistent://{namespace}/{PROBE_TOPIC}")
    except Forbidden as error:
        return error
    except AdminError:
        pass  # it is there
    return None


class NotAllowed(StartupError):
    """This login may not do both: produce and consume."""

    def __init__(self, namespace: str, role: str, error: PulsarError) -> None:
        self.what = (
            f"this login may not produce and consume in {namespace} ({error}); behind a Pulsar proxy, the proxy's role "
            "needs the same"
        )
        self.remedy = (
            f"bin/pulsar-admin namespaces grant-permission {namespace} --role '{role}' --actions produce,consume"
        )
        super().__init__(f"{self.what}; run: {self.remedy}")
