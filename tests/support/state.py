"""Where parts of the bridge keep their state in tests that have one namespace and no bridge."""

from bridge.config import PulsarSettings


def beside(namespace: str) -> PulsarSettings:
    """Settings that keep it where a bridge of this namespace does."""
    tenant, _, name = namespace.partition("/")
    return PulsarSettings(tenant=tenant, namespace=name)


def among_data(namespace: str) -> PulsarSettings:
    """Settings that keep it in this namespace, which is there."""
    tenant, _, name = namespace.partition("/")
    return PulsarSettings(tenant=tenant, namespace=name, state_namespace=namespace)
