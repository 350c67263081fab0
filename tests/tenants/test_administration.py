"""Which APIs tenants are served: each one was looked at."""

from __future__ import annotations

from dataclasses import replace

from bridge import apis
from bridge.requests.rights import cluster
from bridge.security.acls import Operation
from bridge.tenants.administration import for_tenants

ABOUT_ALL = {
    "AlterClientQuotas", "AlterUserScramCredentials", "CreateAcls", "DeleteAcls", "DescribeAcls",
    "DescribeClientQuotas", "DescribeUserScramCredentials",
}  # fmt: skip


def test_what_belongs_to_the_whole_cluster_is_refused() -> None:
    table = apis.load()
    served = for_tenants(table)
    assert served.keys() == table.keys()
    assert {api.name for key, api in served.items() if api is not table[key]} == ABOUT_ALL


def test_a_new_one_that_needs_a_right_to_the_cluster_is_refused() -> None:
    new = replace(apis.load()[3], key=1000, name="New", rights=cluster(Operation.DESCRIBE))
    assert for_tenants({1000: new})[1000].handle is not new.handle
