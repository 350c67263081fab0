"""Who this client is, and whom it connects to: credentials, TLS, and the hosts that may be connected to."""

from bridge.pulsar.auth.access import Access, Destination, RoleAccess
from bridge.pulsar.auth.credentials import Credentials
from bridge.pulsar.auth.host_check import HostRefused

__all__ = ["Access", "Credentials", "Destination", "HostRefused", "RoleAccess"]
