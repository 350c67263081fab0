"""The status page: what a node knows of itself and its cluster, for a browser; what a node shows is in `node`."""

from bridge.status.pages import pages
from bridge.status.query import BadQuery, Query

__all__ = ["BadQuery", "Query", "pages"]
