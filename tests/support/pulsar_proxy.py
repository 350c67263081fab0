"""A real Pulsar proxy in front of a real cluster: clients know no other address, and may reach no broker themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START, Java, JvmProcess, Memory, Program, properties
from bridge.standalone.maven import Jar, JarCache, MavenFetch, cache_directory
from bridge.standalone.ports import HOST, any_free
from bridge.standalone.tools import find_java
from tests.support.pulsar import PulsarAddress
from tests.support.pulsar_cluster import RealCluster

PROXY_VERSION = "4.0.8"  # 4.0.7's is not published
_PULSAR_JARS = {
    "pulsar-proxy": "e25d38b62cdb35a6a47e1977202a11c235b98c5de8cf93d15246820f7701b6eb",
    "pulsar-broker-common": "c19389be4d7db910dc1c904133aa344bac80c093cb5532c16b7c18cc44c45498",
    "pulsar-client-api": "3f5f65cc20e70e14e1c689ee95cbc4833be1974550e29ee75f77d5e7c2d245ef",
    "pulsar-client-original": "a8c1a1cfbdf70a50d9f8eee3f607dc2aa056ea333e5aa16d93f6d972fb1ce785",
    "pulsar-common": "1d68605931390a2b8157d7733b12dc0e50719ac3c5092aedb5a24252892bb29c",
    "pulsar-metadata": "adf00f1e068c165e0ee219e8589e20dff1509abb6d578c03cefb691a0bc9664e",
    "pulsar-websocket": "bdf2578f2521d7e6f0275fd90d35c392701519f0720ef64b4ba20abb1787abec",
}
_JARS = (
    *(Jar(sha256, f"org.apache.pulsar:{name}:{PROXY_VERSION}") for name, sha256 in _PULSAR_JARS.items()),
    Jar(
        "26120c562735f74105da5dfb694b6b73e533802c0d2ced16a0f21b304cca8085",
        "org.eclipse.jetty:jetty-proxy:9.4.57.v20241219",
    ),
    Jar("2b6eaae893099588f99c1974ad2f9bacdf2138dd477b1f5e704cd06ded14beaf", "com.github.seancfoley:ipaddress:5.5.0"),
)
"""What the proxy needs beside the broker's jars, and before them on the class path."""


def proxy_jars() -> list[Path]:
    """Fetched once, and checked."""
    where = cache_directory() / f"pulsar-proxy-{PROXY_VERSION}"
    return JarCache(where, print, _JARS, MavenFetch(print, "the Pulsar proxy")).ensure()


class PulsarProxy(PulsarAddress):
    """`with PulsarProxy(…)`: an address that is used as a broker's is."""

    def __init__(self, behind: Mapping[str, str], directory: Path, guard: Guard, its_jars: Sequence[Path]) -> None:
        """`behind`: the settings by which it finds brokers, says who it is, and has a certificate where it has one."""
        port = any_free()
        http = any_free({port})
        super().__init__(f"pulsar://{HOST}:{port}", f"http://{HOST}:{http}")
        tls = any_free({port, http})
        https = any_free({port, http, tls})
        self.tls_service_url, self.tls_admin_url = f"pulsar+ssl://{HOST}:{tls}", f"https://{HOST}:{https}"
        has_tls = "tlsCertificateFilePath" in behind
        settings = {
            "clusterName": "cluster",
            "servicePort": port,
            "webServicePort": http,
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            # by default only a broker's usual port
            "brokerProxyAllowedTargetPorts": "*",
            **({"servicePortTls": tls, "webServicePortTls": https} if has_tls else {}),
            **behind,
        }
        program = Program(
            name="proxy",
            main="org.apache.pulsar.proxy.server.ProxyServiceStarter",
            directory=directory,
            memory=Memory(256, 256),
            configuration=properties(settings),
            arguments=lambda conf: ["--config", str(conf)],
            ports=(port, http, tls, https) if has_tls else (port, http),
        )
        java = Java(find_java(), [*its_jars, *ensure_pulsar_jars(print)], guard, QUICK_START)
        self.process = JvmProcess(program, java, lambda: _problem(http))

    def __enter__(self) -> Self:
        """Start it and wait until it passes requests on."""
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()


def in_front_of(cluster: RealCluster) -> Mapping[str, str]:
    """It finds brokers as they find each other."""
    store = f"zk:{HOST}:{cluster.cluster.plan.zookeeper}"
    return {"metadataStoreUrl": store, "configurationMetadataStoreUrl": store}


def _problem(port: int) -> str | None:
    status, body = probe.get(port, "/admin/v2/clusters")
    # one that asks for a log-in says so itself
    return None if status in (200, 401) else f"the proxy answers {status}: {body[:200]}"
