"""Connections to brokers: one protocol session each, shared by purpose, and the way back after one is lost."""

from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.connection_handler import ConnectionHandler
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.lookup import Lookup, TopicExistenceCheck
from bridge.pulsar.connection.pool import ConnectionPool, parse_url
from bridge.pulsar.connection.reconnecting import Backoff, ReconnectingHandler

__all__ = [
    "Address",
    "Backoff",
    "BrokerConnection",
    "ClientContext",
    "ConnectionHandler",
    "ConnectionPool",
    "Lookup",
    "ReconnectingHandler",
    "TopicExistenceCheck",
    "parse_url",
]
