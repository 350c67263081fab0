"""What hostile requests cost: the attacker, the bridge, Pulsar and a well-behaved client beside them."""
