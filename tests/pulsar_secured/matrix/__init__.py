"""Who may do what through a bridge, and at its Pulsar directly: by Pulsar, bridge's log-in, authorizer and right."""
