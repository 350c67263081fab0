"""Kafka client sockets: frames in, answers out in request order, back-pressure."""

from bridge.connection.budget import Budget
from bridge.connection.client import ClientConnection
from bridge.connection.listeners.acceptor import Acceptor
from bridge.connection.listeners.listener import Listener
from bridge.connection.shared import SharedResources

__all__ = ["Acceptor", "Budget", "ClientConnection", "Listener", "SharedResources"]
