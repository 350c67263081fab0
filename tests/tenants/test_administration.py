"""Which APIs tenants are served: each one was looked at."""

from __future__ import annotations

from dataclasses import replace

from bridge import apis
from bridge.tenants.administration import OF_A_NAMESPACE, OF_THE_CLUSTER, for_tenants


def test_every_api_is_of_a_namespace_or_refused() -> None:
    """A new one goes into one of the two lists: does it show or change anything that is not the namespace's own?"""
    assert not OF_THE_CLUSTER & OF_A_NAMESPACE
    assert {api.name for api in apis.load().values()} == OF_THE_CLUSTER | OF_A_NAMESPACE


def test_one_that_is_in_neither_list_is_not_served() -> None:
    table = apis.load()
    new = replace(table[3], key=1000, name="New")
    served = for_tenants({**table, 1000: new})
    assert served.keys() == table.keys()
    assert {api.name for key, api in served.items() if api is not table[key]} == OF_THE_CLUSTER
