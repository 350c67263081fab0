"""The status page: what a node knows of itself and its cluster, for a browser."""

from bridge.status.node import Node, NodeStatus, Services
from bridge.status.pages import pages
from bridge.status.query import BadQuery, Query

__all__ = ["BadQuery", "Node", "NodeStatus", "Query", "Services", "pages"]
