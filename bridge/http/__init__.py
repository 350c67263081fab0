"""The operator's HTTP side: metrics, health, readiness and pages, for all or for those with a token."""

from bridge.http.response import Response, Serve, json_response
from bridge.http.server import Check, Health, HttpServer, Render

__all__ = ["Check", "Health", "HttpServer", "Render", "Response", "Serve", "json_response"]
