"""The straight way: requests that have all at hand are served where they are received, with one object for each.

What a request of this way says is known by its bytes, from an earlier one that was decoded (`kafka/produce_head`,
`kafka/fetch_head`). Each way's `take` either serves the request or has done nothing. Then it goes the general way,
which decides what it is, and says what is wrong with it: nothing is refused here.
"""

from bridge.connection.straight.found import StraightRequest
from bridge.connection.straight.way import StraightWay

__all__ = ["StraightRequest", "StraightWay"]
