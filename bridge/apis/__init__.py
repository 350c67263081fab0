"""Every Kafka API that the bridge serves, one module each; the table of APIs is made by listing them."""

import importlib
import pkgutil

from bridge.requests.api import Api


def load() -> dict[int, Api]:
    """The APIs by key, in ascending order."""
    apis: list[Api] = [
        importlib.import_module(f"{__name__}.{module.name}").API for module in pkgutil.iter_modules(__path__)
    ]
    table = {api.key: api for api in sorted(apis, key=lambda api: api.key)}
    if len(table) != len(apis):
        raise TypeError("two modules claim the same API key")
    return table
