"""Users, permissions and quotas that every node keeps alike: the compacted topic `__bridge_security` in Pulsar."""
