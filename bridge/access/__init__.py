"""Whom a listener lets in, and what they may do: users, keys of tokens, their store in Pulsar, Pulsar's permissions."""
