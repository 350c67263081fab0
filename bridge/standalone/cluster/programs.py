"""The programs of a Pulsar cluster and their configuration files: what differs from Pulsar's defaults, and why."""

from bridge.standalone.cluster.plan import ClusterPlan
from bridge.standalone.jvm import Memory, Program, packaged, properties
from bridge.standalone.ports import HOST

CLUSTER_NAME = "cluster"
# How long a killed process keeps what it owns: Pulsar's default is 30 s. On a loaded machine a shorter one would end
# sessions of the living.
SESSION_MILLISECONDS = 6_000
_TICK_MILLISECONDS = 1_000  # ZooKeeper takes sessions of 2 to 20 ticks


# About 2 GB for three brokers, three bookies and the metadata store, in use.
_ZOOKEEPER = Memory(128, 64)
_BOOKIE = Memory(256, 256)
_BROKER = Memory(384, 384)
_SETUP = Memory(256, 64)


def zookeeper(plan: ClusterPlan) -> Program:
    """The metadata store."""
    directory = plan.data_dir / "zookeeper"
    settings = {
        "dataDir": directory / "data",
        "clientPort": plan.zookeeper,
        "clientPortAddress": HOST,
        "tickTime": _TICK_MILLISECONDS,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        "autopurge.purgeInterval": 1,
    }
    return Program(
        name="zookeeper",
        main="org.apache.zookeeper.server.quorum.QuorumPeerMain",
        directory=directory,
        memory=_ZOOKEEPER,
        configuration=properties(settings),
        arguments=lambda conf: [str(conf)],
        ports=(plan.zookeeper,),
    )


def metadata_setup(plan: ClusterPlan) -> Program:
    """Writes what a new cluster begins with, and ends."""
    store = f"zk:{HOST}:{plan.zookeeper}"
    return Program(
        name="the cluster's set-up",
        main="org.apache.pulsar.PulsarClusterMetadataSetup",
        directory=plan.data_dir / "setup",
        memory=_SETUP,
        configuration="",
        arguments=lambda _: [
            *("--cluster", CLUSTER_NAME),
            *("--metadata-store", store, "--configuration-metadata-store", store),
            *("--web-service-url", plan.admin_url, "--broker-service-url", plan.service_url),
        ],
    )


def bookie(plan: ClusterPlan, number: int) -> Program:
    """Bookie 1, 2, 3…: it stores entries."""
    port = plan.bookies[number - 1]
    directory = plan.data_dir / f"bookie-{number}"
    settings = {
        # a name of its own: the port may be another at the next run
        "bookieId": f"bookie-{number}",
        "bookiePort": port,
        "advertisedAddress": HOST,
        "allowLoopback": "true",
        "zkServers": f"{HOST}:{plan.zookeeper}",
        "zkLedgersRootPath": "/ledgers",
        "zkTimeout": SESSION_MILLISECONDS,
        "journalDirectories": directory / "journal",
        "ledgerDirectories": directory / "ledgers",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "dbStorage_writeCacheMaxSizeMb": 32,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 16 << 20,
        # what the broker takes, maxMessageSize (5 MiB) and 10 KiB, see pulsar.conf
        "nettyMaxFrameSizeBytes": 5_253_120,
        "enableStatistics": "false",
        "httpServerEnabled": "false",
        "diskUsageThreshold": 0.99,
        "diskUsageWarnThreshold": 0.98,
    }
    return Program(
        name=f"bookie-{number}",
        main="org.apache.bookkeeper.server.Main",
        directory=directory,
        memory=_BOOKIE,
        configuration=properties(settings),
        arguments=lambda conf: ["--conf", str(conf)],
        ports=(port,),
    )


def broker(plan: ClusterPlan, number: int) -> Program:
    """Broker 1, 2, 3…: clients talk to it."""
    ports = plan.brokers[number - 1]
    copies = min(2, len(plan.bookies))
    settings = {
        "clusterName": CLUSTER_NAME,
        "metadataStoreUrl": f"zk:{HOST}:{plan.zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{HOST}:{plan.zookeeper}",
        "metadataStoreSessionTimeoutMillis": SESSION_MILLISECONDS,
        "brokerServicePort": ports.binary,
        "webServicePort": ports.http,
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "managedLedgerDefaultEnsembleSize": copies,
        "managedLedgerDefaultWriteQuorum": copies,
        "managedLedgerDefaultAckQuorum": copies,
        "managedLedgerCacheSizeMB": _BROKER.direct // 4,
    }
    return Program(
        name=f"broker-{number}",
        main="org.apache.pulsar.PulsarBrokerStarter",
        directory=plan.data_dir / f"broker-{number}",
        memory=_BROKER,
        configuration=packaged("pulsar.conf") + "\n" + properties(settings, plan.settings),
        arguments=lambda conf: ["--broker-conf", str(conf)],
        ports=(ports.binary, ports.http),
    )
