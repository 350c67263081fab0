"""The families of what clients do: by API, by their software, log-ins and what is refused."""

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from bridge.telemetry.exposition.simple import counters, gauges
from bridge.telemetry.metrics import ApiMetrics, Metrics
from bridge.telemetry.traffic import Row

OTHER = "(other)"
"""In place of what a limit leaves out; no topic and no client can be called that."""
_SOFTWARE = ["client_software_name", "client_software_version"]


def families(metrics: Metrics) -> Iterator[Metric]:
    """All of them."""
    yield from _api_families(metrics.all_apis())
    text = (
        "Frames and connections refused, by reason. If it grows, a client is faulty, or no Kafka client, or a limit is "
        "too low: the log line '! refused' says whose they are."
    )
    rejections = [((reason,), count) for reason, count in metrics.rejections().items()]
    yield counters("bridge_kafka_rejected", text, ["reason"], rejections)
    text = "Log-ins of clients. If 'failed' grows, the log category bridge.audit says from where: see docs/security.md."
    yield counters("bridge_logins", text, ["mechanism", "outcome"], list(metrics.logins().items()))
    yield from _software_families(metrics)


def _api_families(apis: list[ApiMetrics]) -> Iterator[Metric]:
    requests = CounterMetricFamily("bridge_kafka_requests", "Requests received, by API.", labels=["api"])
    text = "Error codes answered, by API and Kafka's number of the error. If it grows, see the clients' logs."
    errors = CounterMetricFamily("bridge_kafka_errors", text, labels=["api", "code"])
    bytes_in = CounterMetricFamily("bridge_kafka_request_bytes", "Bytes of requests, by API.", labels=["api"])
    bytes_out = CounterMetricFamily("bridge_kafka_response_bytes", "Bytes of answers, by API.", labels=["api"])
    text = (
        "From frame read to answer written, by API. Slow Produce: compare bridge_pulsar_receipt_seconds. Fetch, "
        "JoinGroup and SyncGroup wait on purpose."
    )
    seconds = HistogramMetricFamily("bridge_kafka_request_seconds", text, labels=["api"])
    for api in apis:
        requests.add_metric([api.name], api.requests.value)
        bytes_in.add_metric([api.name], api.bytes_in.value)
        bytes_out.add_metric([api.name], api.bytes_out.value)
        seconds.add_metric([api.name], api.seconds.buckets(), api.seconds.total)
        # a copy: the loop's thread may add a code while this thread renders
        for code, count in dict(api.errors).items():
            errors.add_metric([api.name, str(code)], count)
    yield from (requests, errors, bytes_in, bytes_out, seconds)


def _software_families(metrics: Metrics) -> Iterator[Metric]:
    table = metrics.clients
    rows: list[tuple[tuple[str, ...], Row[tuple[str, str]]]] = [(row.name, row) for row in table.rows]
    if table.left_out or any(table.others):
        rows.append(((OTHER, OTHER), Row((OTHER, OTHER), table.others, table.other_users)))
    why = "by the name and version that clients tell of their software; (other): beyond http.max_clients_in_metrics."
    text = f"Open connections, {why} Old versions with errors: bring those clients up to date."
    yield gauges("bridge_client_connections", text, _SOFTWARE, [(name, row.users) for name, row in rows])
    for metric, attribute, what in (
        ("requests", "requests", "Requests"),
        ("errors", "errors", "Error codes answered"),
        ("request_bytes", "bytes_in", "Bytes of requests"),
        ("response_bytes", "bytes_out", "Bytes of answers"),
    ):
        values = [(name, getattr(row.amounts, attribute)) for name, row in rows]
        yield counters(f"bridge_client_{metric}", f"{what}, {why}", _SOFTWARE, values)
