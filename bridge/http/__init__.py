"""The operator's HTTP side: metrics, health, readiness and pages, for all or for those with a token.

It imports nothing here: `bridge ready`, which health checks start every few seconds, needs no server.
"""
