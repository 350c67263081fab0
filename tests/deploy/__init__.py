"""How the bridge is deployed: the systemd unit, the image and the Helm chart, each judged by its own tools."""
