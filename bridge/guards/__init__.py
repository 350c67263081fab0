"""Whether clients may do what they ask: one table of APIs and rights, checked before and around the handlers.

A guard takes what the client may not do out of a request, has the handler do the rest, and adds the refusals to its
answer. Fetch and Produce look for themselves (`fetch.partitions`, `apis.produce`): they are asked too often for more
than one look. Without an authorizer no guard runs.
"""
