"""The operator's HTTP side: metrics, health and readiness, for all or for those with a token."""

from bridge.http.server import Check, HttpServer, Render

__all__ = ["Check", "HttpServer", "Render"]
