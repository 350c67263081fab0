"""`kafka.authorizer = "pulsar"`: the permissions that a client's principal has in Pulsar decide what it may do."""
