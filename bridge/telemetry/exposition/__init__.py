"""Shows the metrics to Prometheus: families made of the plain numbers, once per scrape.

Imported at the first scrape, not before: `prometheus_client` takes as long to import as a tenth of a start.
"""

from bridge.telemetry.exposition.exposition import Exposition

__all__ = ["Exposition"]
