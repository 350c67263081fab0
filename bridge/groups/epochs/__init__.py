"""What groups have in common whose members send heartbeats with epochs (KIP-848, KIP-932)."""
