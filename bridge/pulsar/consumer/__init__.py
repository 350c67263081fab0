"""Receiving entries of a topic: readers, consumers of subscriptions, and reads of one entry."""

from bridge.pulsar.consumer.consumer import Consumer
from bridge.pulsar.consumer.entry_fetch import EntryFetch, IsHidden
from bridge.pulsar.consumer.reader import Reader
from bridge.pulsar.consumer.subscription import SubscriptionOptions

__all__ = ["Consumer", "EntryFetch", "IsHidden", "Reader", "SubscriptionOptions"]
