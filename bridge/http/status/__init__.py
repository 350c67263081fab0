"""The status page: what a node knows of itself and its cluster, for a browser; what a node shows is in `node`."""

from bridge.http.status.pages import pages
from bridge.http.status.query import BadQuery, Query

__all__ = ["BadQuery", "Query", "pages"]
