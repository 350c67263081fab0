"""The versions in which the tests ask, unless they say otherwise."""

from bridge.apis import fetch
from bridge.kafka.fetch_messages import BY_ID
from bridge.requests.api import Api


def newest(api: Api) -> int:
    """The newest version in which topics are named by their names."""
    return BY_ID - 1 if api.key == fetch.API.key else api.max_version
