"""Mistakes in the file of settings and in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from tests.mistakes.mistake import Mistake, Place, complaint, settings
from tests.support.certificates import Authority

_SSL = '[kafka]\nlisteners = "SSL://127.0.0.1:0"\n[listener.SSL]\n'
_SASL = '[kafka]\nlisteners = "SASL_PLAINTEXT://127.0.0.1:0"\n'


def _no_file(place: Place) -> str:
    return place.bridge("run", "--config", "brigde.toml")


def _a_directory(place: Place) -> str:
    (place.directory / "bridge.d").mkdir()
    return place.bridge("run", "--config", "bridge.d")


def _unreadable(place: Place) -> str:
    """As a process that is not root."""
    place.file("bridge.toml", "", 0o000)
    return place.bridge("run", "--config", "bridge.toml", as_nobody=True)


def _other_encoding(place: Place) -> str:
    place.file("bridge.toml", '[kafka]\nrack = "M\N{LATIN SMALL LETTER U WITH DIAERESIS}nchen"\n'.encode("latin-1"))
    return place.bridge("run", "--config", "bridge.toml")


def _written_as(text: str) -> Callable[[Place], str]:
    """The whole file of settings is this."""

    def run(place: Place) -> str:
        place.file("bridge.toml", text)
        return place.bridge("run", "--config", "bridge.toml")

    return run


def _empty_token(place: Place) -> str:
    place.settings(f'[pulsar]\ntoken_file = "{place.file("token", "")}"\n')
    return place.bridge("check", "--offline", "--config", "bridge.toml")


def _with_certificate(place: Place, certificate: str, key: str) -> str:
    return place.start(f'{_SSL}ssl_certificate_file = "{certificate}"\nssl_key_file = "{key}"\n')


def _key_is_not_there(place: Place) -> str:
    return _with_certificate(place, Authority(place.directory).sign("node").certificate, "/etc/bridge/tls.key")


def _key_of_another(place: Place) -> str:
    authority = Authority(place.directory)
    return _with_certificate(place, authority.sign("node").certificate, authority.sign("other").key)


def _certificate_is_none(place: Place) -> str:
    key = Authority(place.directory).sign("node").key
    return _with_certificate(place, str(place.file("tls.crt", "TODO: ask for a certificate\n")), key)


def _certificate_has_ended(place: Place) -> str:
    files = Authority(place.directory).sign("node", lasts=timedelta(days=-1))
    return place.bridge("check", "--offline", "--config", _written(place, *files))


def _written(place: Place, certificate: str, key: str) -> str:
    place.settings(f'{_SSL}ssl_certificate_file = "{certificate}"\nssl_key_file = "{key}"\n')
    return "bridge.toml"


def _key_is_anothers(place: Place) -> str:
    """Of a user that this process is not, where it may give it away; else one that its owner may not read."""
    files = Authority(place.directory).sign("node")
    if os.geteuid() == 0:
        os.chown(files.key, 65534, 65534)
    Path(files.key).chmod(0o000)
    return complaint(place.bridge("run", "--config", _written(place, *files), as_nobody=True))


def _wrong_password_file(place: Place) -> str:
    file = place.file("users", "alice:wonderland\n")
    return place.start(f'{_SASL}[security]\npassword_file = "{file}"\n')


MISTAKES = [
    settings("a setting is misspelled", '[kafka]\nlistn = "127.0.0.1:9092"\n', "did you mean listen?"),
    settings("a section is misspelled", '[kafak]\nrack = "a"\n', "did you mean kafka?"),
    settings("a setting stands before any section", 'authorizer = "kafka"\n', "sections are kafka, cluster, pulsar,"),
    settings("a text has no quotes", "[kafka]\nlisten = 127.0.0.1:9092\n", 'lines are [section], name = "text"'),
    Mistake("YAML in place of TOML", _written_as("kafka:\n  listen: 127.0.0.1:9092\n"), "lines are [section], name ="),
    Mistake(
        "a setting stands there twice",
        _written_as('[kafka]\nlisten = "127.0.0.1:9092"\nlisten = "127.0.0.1:9093"\n'), "keep one of the two",
    ),
    Mistake(
        "a section stands there twice",
        _written_as('[kafka]\nrack = "a"\n[log]\n[kafka]\nnode_id = 1\n'), "put all of its settings there",
    ),
    Mistake("the file is in another encoding", _other_encoding, "save the file in this encoding"),
    Mistake("a directory in place of the file", _a_directory, "it is a directory; --config names their file"),
    Mistake("the file is closed to this process", _unreadable, "chown or chmod it"),
    Mistake("the file of settings is not there", _no_file, "--config names their file"),
    settings("an address has no port", '[kafka]\nlisten = "localhost"\n', "must be host:port"),
    settings("an IPv6 address without brackets", '[kafka]\nlisten = "::1:9092"\n', "IPv6 as [host]:port"),
    settings("a port is too large", '[kafka]\nlisten = "127.0.0.1:99092"\n', "the port at most 65535"),
    settings("a number is a text", '[kafka]\nmax_connections = "many"\n', "must be an integer of at least 1"),
    settings("yes in place of true", '[kafka]\nauto_create_topics = "yes"\n', "must be true or false"),
    settings("a word that a setting does not have", '[kafka]\nauthorizer = "acl"\n', 'must be one of "none", "kafka"'),
    settings("an environment variable is misspelled", "", "did you mean BRIDGE_KAFKA_LISTEN?", BRIDGE_KAFKA_LISTN="x"),
    settings("an environment variable is no number", "", "must be an integer", BRIDGE_KAFKA_WORKERS="all"),
    settings("two mistakes at once", '[kafka]\nlistn = "x"\nworkers = -1\n', "did you mean listen?"),
    settings(
        "every interface, and nothing that clients are told",
        '[kafka]\nlisten = "0.0.0.0:9092"\n', "set kafka.advertised to",
    ),
    settings(
        "clients are told 0.0.0.0",
        '[kafka]\nlisten = "0.0.0.0:9092"\nadvertised = "0.0.0.0:9092"\n', "set the host:port they",
    ),
    settings("a listener without a name", '[kafka]\nlisteners = "127.0.0.1:9092"\n', "as PLAINTEXT://127.0.0.1:9092"),
    settings(
        "a listener's name is no security protocol", '[kafka]\nlisteners = "CLIENTS://127.0.0.1:9092"\n',
        "say which it is by kafka.listener_security_protocol_map",
    ),
    settings(
        "two listeners at one port", '[kafka]\nlisteners = "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9092"\n',
        "give each one of its own",
    ),
    settings(
        "Kafka and metrics at one port", '[kafka]\nlisten = "127.0.0.1:9092"\n[http]\nlisten = "127.0.0.1:9092"\n',
        "give each one of its own",
    ),
    settings(
        "both forms of listeners", '[kafka]\nlisten = "127.0.0.1:9093"\nlisteners = "PLAINTEXT://127.0.0.1:9092"\n',
        "keep one of the two forms",
    ),
    settings(
        "an address for a listener that is not there",
        '[kafka]\nlisteners = "PLAINTEXT://127.0.0.1:9092"\nadvertised_listeners = "EXTERNAL://kafka.example:9092"\n',
        "use one of these names, or add a listener",
    ),
    settings("TLS without a certificate", _SSL, "set listener.SSL.ssl_certificate_file"),
    settings("a certificate without its key", f'{_SSL}ssl_certificate_file = "/etc/hostname"\n', "set both or neither"),
    Mistake("the key file is not there", _key_is_not_there, "must be a file this process can read; no such file"),
    Mistake("the key file is another user's", _key_is_anothers, "chown or chmod it"),
    Mistake("the key is of another certificate", _key_of_another, "take the key that the certificate was made for"),
    Mistake("the certificate file holds none", _certificate_is_none, "it is no PEM file with a line -----BEGIN"),
    Mistake("the certificate has ended", _certificate_has_ended, "renew the certificate"),
    settings(
        "settings of TLS for a listener without",
        '[kafka]\nlisteners = "PLAINTEXT://127.0.0.1:9092"\n[listener.PLAINTEXT]\nssl_client_auth = "required"\n',
        'set kafka.listener_security_protocol_map = "PLAINTEXT:SSL", or take them out',
    ),
    settings(
        "a log-in for a listener without",
        '[kafka]\nlisteners = "SSL://127.0.0.1:9092"\n[listener.SSL]\nsasl_enabled_mechanisms = "PLAIN"\n'
        'ssl_certificate_file = "/etc/hostname"\nssl_key_file = "/etc/hostname"\n',
        'set kafka.listener_security_protocol_map = "SSL:SASL_SSL", or take them out',
    ),
    settings("a mechanism that is none", f'{_SASL}sasl_enabled_mechanisms = "SCRAM"\n', "must be PLAIN, SCRAM-SHA-256"),
    settings(
        "tokens without the keys of their issuer", f'{_SASL}sasl_enabled_mechanisms = "OAUTHBEARER"\n', "set security."
    ),
    settings(
        "a super user without a type", '[kafka]\nauthorizer = "kafka"\nsuper_users = "admin"\n', "such as User:admin"
    ),
    settings(
        "super users with commas between them", '[kafka]\nauthorizer = "kafka"\nsuper_users = "User:admin,User:ops"\n',
        "by semicolons",
    ),
    settings("super users, and nobody who asks", '[kafka]\nsuper_users = "User:admin"\n', "set the authorizer"),
    Mistake("a password in the file of users", _wrong_password_file, "it is not of the form name:SCRAM-SHA-256$"),
    settings("HTTP as the service URL", '[pulsar]\nservice_url = "http://pulsar:8080"\n', "must be pulsar://host:port"),
    settings(
        "the namespace in the service URL", '[pulsar]\nservice_url = "pulsar://pulsar:6650/public/default"\n',
        "tenant and namespace are two settings",
    ),
    settings(
        "a service URL with a scheme for each host", '[pulsar]\nservice_url = "pulsar://a:6650,pulsar://b:6651"\n',
        "the scheme stands once, before the first host",
    ),
    settings(
        "an admin URL with a scheme for each host", '[pulsar]\nadmin_url = "http://a:8080,http://b:8080"\n',
        "the scheme stands once, before the first host",
    ),
    settings("an admin URL without its scheme", '[pulsar]\nadmin_url = "pulsar:8080"\n', "must be http://host:port"),
    settings(
        "a token in two ways", '[pulsar]\ntoken = "a"\ntoken_file = "/etc/hostname"\n', "keep one of them"
    ),
    settings("a token as Pulsar's clients write it", '[pulsar]\ntoken = "token:eyJhbGciOi"\n', "behind token:"),
    Mistake("the token's file is empty", _empty_token, "put the token there"),
    settings(
        "the token's file is not there", '[pulsar]\ntoken_file = "/run/token"\n', "must be a file this process can read"
    ),
    settings("the tenant in the namespace", '[pulsar]\nnamespace = "public/default"\n', "tenant and namespace are two"),
    settings("the state beside clients' topics", '[pulsar]\nstate_namespace = "public/default"\n', "one of its own"),
    settings(
        "one address for all nodes, and none between them",
        '[cluster]\naddressing = "single"\n', "needs cluster.internal"
    ),
    settings(
        "a request may be larger than all memory", "[kafka]\nmax_request_bytes = 1000000000\n",
        "Raise it, or lower the other",
    ),
]  # fmt: skip
