"""What operators see of the bridge in Prometheus and Grafana, judged by a real Prometheus."""
