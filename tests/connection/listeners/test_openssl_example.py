"""The commands of docs/security.md that make a certificate to try: what they make serves clients who trust it."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import pytest

from bridge.config import Settings
from bridge.connection.listeners.certificates import ListenerTls
from bridge.telemetry.metrics import TlsMetrics
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "security.md"


@pytest.mark.programs
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "kafka.example"])
def test_a_certificate_to_try_is_trusted_by_its_authority(host: str, tmp_path: Path) -> None:
    (commands,) = re.findall(r"^```bash\n(openssl req -x509.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    own = {"ssl_certificate_file": str(tmp_path / "tls.crt"), "ssl_key_file": str(tmp_path / "tls.key")}
    (plan,) = Settings().with_values(kafka={"listeners": "SSL://127.0.0.1:0"}, listener={"SSL": own}).listeners
    listener = ListenerTls(plan, TlsMetrics())
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        listener.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert sides[0].version() == "TLSv1.3"
    shown = sides[0].getpeercert()
    assert shown is not None and shown["subject"] == ((("commonName", "kafka.example"),),)
