"""Kafka client sockets: frames in, answers out in request order, back-pressure."""

from bridge.connection.budget import Budget
from bridge.connection.client import Connection
from bridge.connection.listener import Listener

__all__ = ["Budget", "Connection", "Listener"]
