"""Requests that one node must serve, passed on to it by the node that a client happens to be connected to.

Only behind one address (`cluster.addressing = "single"`). There clients cannot choose a node, so the nodes do it for
them: over internal listeners, in Kafka's own Envelope (KIP-590).
"""
