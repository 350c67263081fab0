"""Certificates for servers of the tests' own."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A throw-away authority, and a certificate for the name localhost only."""
    where = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=where, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *key, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=localhost")
    (where / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl(
        "x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names", "-out", "broker.pem",
    )  # fmt: skip
    return where
