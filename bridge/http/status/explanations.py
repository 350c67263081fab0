"""What each notable line of the log means, and what to do: one sentence or two for who reads the status page."""

from typing import Final

_NONE: Final = "A library that the bridge uses, or Python, says this; the details have its own words."


def explanation_of(text: str) -> str:
    """What an event means, by its text without the mark."""
    return EXPLANATIONS.get(text, _NONE)


EXPLANATIONS: Final = {
    # clients
    "accept failed": "The system gave no new connection, usually because descriptors ran out: raise the limit of open "
    "files (ulimit -n).",
    "address blocked": "Too many log-ins of this address failed; its connections are closed for a while.",
    "client lost": "A connection ended while it was being accepted. Nothing is to be done.",
    "client of no namespace": "No rule of tenants.rules leads this client to a namespace: it is refused.",
    "connection turned away": "A connection was closed at once, by a limit that the details name.",
    "denied": "A client asked for what its principal may not do. The details say who, what and where.",
    "more was denied": "More denials than are written one by one; the details have their number.",
    "drained by force": "Some clients took no answers while the node stopped, and were cut off after the time for it.",
    "log-in refused": "A client did not log in: wrong name, password, token or certificate. The details say which way.",
    "no TLS handshake": "A client connected and no TLS session came of it: it speaks no TLS, trusts another "
    "certificate, or has none.",
    "no producer id": "An idempotent producer could get no id, for Pulsar did not answer in time. Clients retry.",
    "random producer id": "Pulsar's ledger numbers are larger than expected, so an id was drawn.",
    "refused": "A connection or frame was refused; the details say why: too many connections, or bytes that are not "
    "Kafka's.",
    "numbers of the status page not taken": "The page's alerts and lags of the last hour miss a moment. Report it, "
    "with the details in the log.",
    "request failed": "A request met an error in the bridge that should not be: its connection was closed. Report it, "
    "with the details in the log.",
    "topic not created": "A topic that a client named could not be created automatically; the details say why.",
    "unauthorized": "Requests for this page or the metrics came without the token, or with a wrong one.",
    "http request failed": "A request for this page or the metrics met an error that should not be: see the log.",
    # settings
    "any client can name the client id that leads to a tenant's namespace": "A rule of tenants goes by client ids, "
    "which nothing proves. Let clients log in.",
    "nobody may do anything, nor add an ACL: there is no ACL and no super user": "kafka.authorizer is kafka, so all "
    "clients are refused everything. Name an administrator in kafka.super_users.",
    "fewer files may be open than connections are allowed": "Connections beyond the system's limit of open files will "
    "be refused. The details have the command that raises it.",
    "certificate has expired: clients refuse it": "A listener's certificate has ended: put a new one into its file.",
    "certificate not taken, the former one stays": "A changed certificate file is unfit; the details say why.",
    "clients that reach this listener can read, change and delete everything: let them log in, or say that this is "
    "wanted": "The listener is open to other machines without log-in.",
    "file refused, its old content stays": "A changed file (users, tokens, keys) is unfit; the details say which line.",
    "list of withdrawn certificates is out of date: clients with certificates are refused": "Put a new list into the "
    "file of ssl_client_crl_file.",
    "others on this machine can read or change a file with a secret": "Close it by the command in the details.",
    "passwords and tokens can be read on the way to this listener: these mechanisms need TLS": "Use a listener with "
    "SASL_SSL for them, or SCRAM.",
    "settings differ from the controller's": "Nodes of one cluster should share these settings; the details name them.",
    "the internal listener takes every connection for another node's: set a secret": "Set "
    "cluster.internal_secret_file, the same on all nodes.",
    "the token of the metrics can be read on the way here: set http.ssl_certificate_file": "This port asks for a token "
    "and has no TLS.",
    "token issuer's keys not fetched": "The keys by which clients' tokens are checked could not be fetched; the former "
    "ones are used.",
    "tokens for other services let clients in: name the issuer and the audience that tokens must have": "Set "
    "security.oauthbearer_expected_issuer and security.oauthbearer_expected_audience.",
    # Pulsar
    "lag not known": "Pulsar did not say where this partition ends, or when a record was published. What groups lag "
    "there is shown as not known; it is asked again.",
    "deduplication is not in force": "The broker does not deduplicate this topic yet, though it was asked to.",
    "deduplication is off": "Pulsar does not deduplicate here, so idempotent producers are refused: switch it on for "
    "the namespace.",
    "inactive topics may be deleted": "Pulsar deletes topics without clients: set brokerDeleteInactiveTopicsEnabled "
    "to false.",
    "pulsar attachment broke": "A producer or reader met an unexpected error and is opened again. Report it, with the "
    "details.",
    "pulsar certificates not taken, the former ones stay": "The changed certificates for Pulsar are unfit; the details "
    "say why.",
    "pulsar created what was asked about": "A question about permissions made Pulsar create a deleted topic again.",
    "pulsar credentials not renewed yet": "A broker asked for new credentials and there were none in time; it is tried "
    "again.",
    "pulsar does not list its brokers in time": "Which brokers there are could not be asked; hosts that Pulsar names "
    "are refused until then.",
    "pulsar does not tell permissions": "Pulsar could not be asked what a principal may do: clients are refused, and "
    "retry.",
    "pulsar entry is corrupt": "An entry that Pulsar stores cannot be decoded. Consumers get CORRUPT_MESSAGE there and "
    "have to seek past it.",
    "pulsar has forgotten a reader": "A broker closed a topic just as a reader came, and lost it. It was opened again.",
    "pulsar host refused": "Pulsar named a broker that the bridge may not connect to: see pulsar.allowed_hosts.",
    "pulsar not attached": "A producer or reader cannot reach its broker, and tries again. Clients of those partitions "
    "get errors that they retry.",
    "pulsar permissions not read": "The permissions of a namespace could not be read; it is tried again.",
    "pulsar producer not closed": "A broker did not confirm that a producer is closed. Its name may stay in use for a "
    "while.",
    "pulsar receipt out of order": "A broker acknowledged a later entry first; the producer is opened again and sends "
    "what has no receipt.",
    "pulsar refused": "A broker refuses a producer or reader; the details have its reason.",
    "pulsar send refused": "A broker did not store an entry; the details have its reason. It is tried again where that "
    "can help.",
    "pulsar sent what is not its protocol": "Something other than a Pulsar broker answers there, or bytes were lost.",
    "pulsar does not acknowledge": "Topics wait for Pulsar's receipts: they are above their publish rate, or their "
    "bookies hang. Other topics do not wait for them.",
    "pulsar broker away": "A broker cannot be reached. One attempt a second is made for all who wait for it.",
    "pulsar broker still away": "As before; the details say how many wait.",
    "pulsar stores nothing": "Pulsar has refused all that was sent to it for some seconds: look at the disks of the "
    "bookies.",
    "pulsar token file not read": "The file with the token for Pulsar could not be read; the former token is used.",
    "pulsar token not fetched": "The OAuth2 issuer gave no token for Pulsar; it is tried again.",
    "producer name in use by this process": "Two producers of one name met, which should not be; the older one was "
    "closed. Report it.",
    # topics and partitions
    "log start not refreshed": "Pulsar could not be asked where a log begins; the former answer is used.",
    "partition not closed cleanly": "Closing a partition met an error; nothing acknowledged is lost.",
    "entry passed over": "Another client than this bridge stored what cannot be decoded, or claims more messages than "
    "it sent. Consumers go on behind it, as Pulsar's own do. Find out who writes it.",
    "marks of other nodes are not believed": "The secret by which nodes sign their marks cannot be had: look-ups by "
    "time are slower, and repetitions of another node's batches are told without their offsets. See who may administer "
    "the state namespace.",
    "others may change what the bridge believes": "Another role may write to the bridge's state namespace, or Pulsar "
    "asks no client who it is: it could make itself a super user. `bridge check` says the command that ends it.",
    "log keeps the namespace's retention": "A topic of the bridge's state could not get a retention of its own. Its "
    "namespace keeps more than is needed; nothing is lost.",
    "pulsar does not say that a token is of its claim": "A client's token is good, and Pulsar does not say that its "
    "role is what the claim says: the log-in is refused. Look at pulsar.token_auth_claim.",
    "tail ended": "The reader at a partition's end stopped, and is opened again at the next read.",
    "topic not refreshed": "Pulsar could not be asked about a topic; what was known of it is used.",
    "topic policies not followed": "The policies of a topic could not be read; what was known of them is used.",
    "topic without an id": "A topic could not be given an id, so clients cannot ask for it by id.",
    # groups
    "group not mirrored": "A group has a name that Pulsar keeps for itself: it works, and no subscription shows it.",
    "group not resumed": "A stored group could not be read after a start; its first request reads it.",
    "internal topic of a streams group not created": "A Kafka Streams application waits for a topic that could not be "
    "made; the reason is beside. It is tried again after two heartbeats.",
    "share state not stored": "What became of records of a share group could not be stored in Pulsar: they may be "
    "delivered again.",
    "group not stored": "A change of a group could not be stored in Pulsar; its members retry.",
    "group unreadable": "What is stored of a group cannot be read: a newer bridge, or none, wrote it.",
    "mirror left behind": "Some committed offsets were not copied to Pulsar's subscriptions before the stop. They are "
    "kept all the same.",
    "offset not mirrored": "A committed offset could not be copied to its Pulsar subscription, which another consumer "
    "may use. It is tried again, at least each minute.",
    "offset of a group is unreadable": "A stored offset cannot be read: a newer bridge, or none, wrote it.",
    "offsets not checked for expiry": "Which offsets have expired could not be found out; it is tried again.",
    "offsets of a deleted topic stay": "The offsets of a deleted topic could not be deleted; they will expire.",
    "offsets of deleted topics stay": "The offsets of deleted topics could not be deleted; they will expire.",
    "subscriptions not seen": "Pulsar could not be asked which subscriptions a topic has, and is at the next start.",
    "topics of a group not looked at": "Pulsar could not be asked about the topics of a group; its members keep what "
    "they have.",
    "entry is unreadable": "An entry of the bridge's own topics cannot be decoded, and is left out.",
    "entry of a former holder left out": "A node that had lost these groups wrote once more; it does not count.",
    "slot failed": "The groups of a slot could not be kept, and are read from Pulsar again.",
    "slot freed from its holder": "A holder that was gone still had a slot of groups; it was freed by an unload.",
    "slot not compacted": "Pulsar did not compact the groups' topic; it is tried again.",
    "slot not freed": "A slot of groups is held by a producer that is gone, and could not be freed yet.",
    "offsets not settled": "Offsets of decided transactions could not be stored as plain ones. They count all the "
    "same, and it is tried again.",
    # transactions
    "aborted transactions not forgotten": "Of transactions that were aborted long ago nothing is left, but what is "
    "known of them could not be deleted. It is kept, and looked at again hours later.",
    "partition not asked": "Whether aborted transactions left anything in a partition could not be asked of Pulsar: "
    "what is known of them is kept, and looked at again hours later.",
    "pending offsets not read": "Whether groups have offsets of aborted transactions could not be read from Pulsar: "
    "what is known of these is kept, and looked at again hours later.",
    "pruning of transactions failed": "Looking for aborted transactions of which nothing is left met an error that "
    "should not be: report it, with the details in the log.",
    "a reader failed when its transaction was decided": "Readers of one partition were not told of a decision because "
    "of an error that should not be: report it, with the details in the log.",
    "healing of transactions failed": "Looking for what is known wrongly of transactions met an error that "
    "should not be: report it, with the details in the log.",
    "no coordinator of transactions": "What transactions are kept in could not be made or found: Pulsar was away. "
    "Clients try again.",
    "no time-out yet": "A transaction is open beyond its time-out and could not be aborted. It is tried each second.",
    "time-outs of transactions failed": "Looking for transactions that are open for too long met an error that "
    "should not be: report it, with the details in the log.",
    "transaction open for too long": "As this node knows it, a transaction has been open for more than twice its "
    "time-out. Its slot is read again if another node has it: see docs/operations.md, BridgeTransactionOverdue.",
    "transactional id closed": "Pulsar has not acknowledged a record of this id in time. The id goes on once it is "
    "known whether the record is stored.",
    "transactions not confirmed": "Pulsar did not tell what is recorded of a transaction, or an error came of it. It "
    "is asked again each second while a reader waits.",
    "transactions not loaded yet": "A start has not read all that is recorded of transactions in time. Until it has, "
    "readers of committed records wait.",
    "slot not followed": "What another process stores in a slot could not be read on, and is read from Pulsar again.",
    "slot not owned": "The groups of a slot could not be taken yet: another process has them, or Pulsar is away.",
    # the cluster
    "another bridge has, or had, this namespace for its own: stop it, or give it another one": "Two clusters of "
    "bridges would take groups from each other.",
    "cluster producer ended": "The producer of the cluster's records ended, and is made again.",
    "cluster record not written": "This node could not tell the others something in time; it is tried again.",
    "cluster record unreadable": "A record of the cluster cannot be decoded: a newer bridge, or none, wrote it.",
    "cluster topic is missing": "A topic of the cluster was deleted, and is created again.",
    "cluster topic keeps the namespace's retention": "The retention of a topic of the cluster could not be set; it "
    "keeps more than it needs.",
    "cluster topic not read": "The cluster's records cannot be read now; it is tried again.",
    "membership ended": "This node can be a member of its cluster no more, and stops; the details say why.",
    "namespace not opened": "A tenant's namespace cannot be used now; its clients are refused, and retry.",
    "node not admitted": "A node may not join the cluster; the details say why.",
    "node unreachable": "Another node does not answer at its internal address; what clients ask of its groups and "
    "transactions waits, and they retry.",
    "not served for another node": "Another node passed on a request that this one refuses; the details say why.",
    "serving": "What this node may serve has changed: it is cut off from Pulsar (refuse), or was.",
    # users and permissions
    "security entry unreadable": "An entry of the users' topic cannot be decoded, and is left out.",
    "security log not read to its end": "The users and permissions cannot be read from Pulsar now; it is tried again.",
    "security record not understood": "A newer bridge wrote a user or permission that this version does not know.",
    # the process
    "event loop held": "Something kept all clients waiting; the details name the API and the code.",
    "worker died": "A worker process ended and is started again; its own last lines say why.",
    "worker failed": "A worker process could not start or go on; the details say why.",
    "worker hangs, killed": "A worker did not answer its health checks, and was killed; it is started again.",
    "workers drained by force": "Some workers took too long to stop, and were killed.",
}
