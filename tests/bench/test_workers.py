"""The benchmark of several workers measures what it says."""

from __future__ import annotations

from bench.light_client import REQUESTS
from bench.workers import Workers, request_rate
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


def test_small_requests_are_answered_by_all_workers(pulsar: PulsarAddress) -> None:
    settings = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"workers": 2, "worker_port": 0}})
    with Workers(settings) as workers:
        for api in REQUESTS:
            before = workers.cpu()
            rate, efficiency = request_rate(workers, api, 0.3)
            assert rate > 0 and efficiency > 0
            assert len(before.used()) == len(workers.ports) == 2
