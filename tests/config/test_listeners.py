"""The listeners' settings: Kafka's forms, its rules, and the table of each."""

import re
import tomllib
from pathlib import Path

import pytest

from bridge.config import Address, ListenerSettings, Settings, load
from bridge.errors import SettingsError

THIS = __file__
AES = "ECDHE-RSA-AES128-GCM-SHA256"
TWO = "CLIENT://0.0.0.0:9092,INSIDE://[::1]:9094"


def kafka(**values: object) -> Settings:
    values.setdefault("listener_security_protocol_map", "CLIENT:PLAINTEXT,INSIDE:PLAINTEXT")
    return Settings().with_values(kafka=values)


def test_without_any_there_is_the_one_of_the_short_form() -> None:
    (one,) = Settings().listeners
    assert (one.name, one.listen, one.told(9092)) == ("PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 9092))
    (one,) = Settings().with_values(kafka={"listen": "0.0.0.0:1", "advertised": "k:2"}).listeners
    assert (one.listen, one.told(1)) == (("0.0.0.0", 1), ("k", 2))  # noqa: S104


def test_several_with_what_clients_of_each_are_told() -> None:
    listeners = kafka(listeners=TWO, advertised_listeners="client://kafka.example:19092").listeners
    assert [one.name for one in listeners] == ["CLIENT", "INSIDE"]
    assert [one.told(9094) for one in listeners] == [Address("kafka.example", 19092), Address("::1", 9094)]
    assert [one.is_exposed for one in listeners] == [True, False]


@pytest.mark.parametrize(
    ("listeners", "host"),
    [("PLAINTEXT://:9092", "0.0.0.0"), ("plaintext://[fe80::1%eth0]:9092", "fe80::1%eth0")],  # noqa: S104
)
def test_kafkas_forms_of_an_address(listeners: str, host: str) -> None:
    (one,) = kafka(listeners=listeners, advertised_listeners="PLAINTEXT://k:1").listeners
    assert (one.name, one.listen.host) == ("PLAINTEXT", host)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"listeners": "CLIENT"}, "kafka.listeners = \"CLIENT\": 'CLIENT' is not NAME://host:port"),
        ({"listeners": "CLIENT://h:x"}, "is not NAME://host:port"),
        ({"listeners": "CLIENT://a:1,client://b:2"}, "CLIENT is there twice"),
        ({"listeners": "CLIENT://a:1,INSIDE://b:1"}, "CLIENT and INSIDE have the same port 1"),
        ({"listeners": "CLIENT://127.0.0.1:1,INSIDE://127.0.0.2:1"}, "have the same port 1"),
        ({"listeners": "OTHER://a:1"}, 'kafka.listener_security_protocol_map = "OTHER:PLAINTEXT"'),
        ({"listeners": "CLIENT://0.0.0.0:1"}, "set kafka.advertised_listeners to CLIENT://"),
        ({"listeners": "CLIENT://a:1", "advertised_listeners": "CLIENT://0.0.0.0:1"}, "cannot connect to 0.0.0.0:1"),
        ({"listeners": "CLIENT://a:1", "advertised_listeners": "CLIENT://a:0"}, "cannot connect to a:0"),
        ({"listeners": "CLIENT://a:1", "advertised_listeners": "INSIDE://a:1"}, "INSIDE is not in kafka.listeners"),
        ({"listeners": "CLIENT://a:1", "listen": "a:1"}, "keep one of the two forms"),
        ({"listeners": "CLIENT://a:1", "advertised": "a:1"}, "keep one of the two forms"),
        ({"advertised_listeners": "CLIENT://a:1"}, "set without kafka.listeners"),
        ({"listener_security_protocol_map": "CLIENT"}, "is not NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "CLIENT:TLS"}, "is not NAME:PROTOCOL, with one of PLAINTEXT"),
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        kafka(**values)


@pytest.mark.parametrize(
    ("protocol", "table", "said"),
    [
        ("SSL", {}, "the security protocol of CLIENT is SSL: set listener.CLIENT.ssl_certificate_file"),
        ("SASL_SSL", {"ssl_certificate_file": THIS}, "is set without listener.CLIENT.ssl_key_file"),
        (
            "SSL",
            {"ssl_certificate_file": THIS, "ssl_key_file": THIS, "ssl_keystore_file": THIS},
            "ssl_keystore_file and listener.CLIENT.ssl_certificate_file are both set",
        ),
        ("SSL", {"ssl_key_password_file": THIS}, "ssl_key_password_file is set without listener.CLIENT.ssl_key_file"),
        (
            "SSL",
            {"ssl_keystore_file": THIS, "ssl_client_crl_file": THIS},
            "ssl_client_crl_file means nothing with ssl_client_auth",
        ),
        (
            "SSL",
            {"ssl_keystore_file": THIS, "ssl_enabled_protocols": "TLSv1.3", "ssl_cipher_suites": AES},
            "cipher suites are chosen for TLSv1.2 alone",
        ),
        ("PLAINTEXT", {"ssl_enabled_protocols": "TLSv1.3"}, "listener.CLIENT has settings of TLS"),
        (
            "SSL",
            {"ssl_certificate_file": THIS, "ssl_key_file": THIS, "ssl_client_auth": "required"},
            "set listener.CLIENT.ssl_client_ca_file",
        ),
        (
            "PLAINTEXT",
            {"ssl_key_file": THIS},
            "has settings of TLS, but its security protocol is PLAIN",
        ),
        ("PLAINTEXT", {"ssl_client_auth": "requested"}, "listener.CLIENT has settings of TLS"),
        ("PLAINTEXT", {"sasl_enabled_mechanisms": "PLAIN"}, "listener.CLIENT has settings of log-in"),
        ("SASL_PLAINTEXT", {"allow_anonymous": True}, "listener.CLIENT.allow_anonymous = true, but its security"),
        (
            "SASL_PLAINTEXT",
            {"sasl_enabled_mechanisms": "GSSAPI"},
            "must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ("PLAINTEXT", {"ssl_key_file": "/no/such"}, 'ssl_key_file = "/no/such": must be a file this process can read'),
    ],
)
def test_a_table_fits_its_security_protocol(protocol: str, table: dict[str, object], said: str) -> None:
    values = {"listeners": "CLIENT://a:1", "listener_security_protocol_map": f"CLIENT:{protocol}"}
    with pytest.raises(SettingsError, match=re.escape(said)):
        Settings().with_values(kafka=values, listener={"CLIENT": table})


def test_mechanisms_are_those_of_the_listener_else_of_all() -> None:
    made = Settings().with_values(
        kafka={
            "listeners": "SASL_PLAINTEXT://a:1,OWN://a:2,PLAINTEXT://a:3",
            "listener_security_protocol_map": "OWN:SASL_PLAINTEXT",
            "sasl_enabled_mechanisms": "PLAIN, SCRAM-SHA-512",
        },
        listener={"OWN": {"sasl_enabled_mechanisms": "SCRAM-SHA-256"}},
        security={"password_file": THIS},
    )
    found = {one.name: (one.mechanisms, one.has_login) for one in made.listeners}
    assert found == {
        "SASL_PLAINTEXT": (("PLAIN", "SCRAM-SHA-512"), True),
        "OWN": (("SCRAM-SHA-256",), True),
        "PLAINTEXT": ((), False),
    }


def test_ports_may_be_the_same_for_ipv4_and_ipv6_and_zero_is_any() -> None:
    assert len(kafka(listeners="CLIENT://127.0.0.1:1,INSIDE://[::1]:1").listeners) == 2
    assert len(kafka(listeners="CLIENT://a:0,INSIDE://a:0").listeners) == 2


def test_a_table_belongs_to_its_listener(tmp_path: Path) -> None:
    text = '[kafka]\nlisteners = "SASL_1://a:1"\nlistener_security_protocol_map = "SASL_1:PLAINTEXT"\n'
    path = tmp_path / "bridge.toml"
    path.write_text(text + "[listener.sasl_1]\nmax_connections = 7\n")
    environ = {"BRIDGE_LISTENER_SASL_1_ALLOW_ANONYMOUS": "true"}
    loaded = load(path, environ)
    assert loaded.listeners[0].settings == ListenerSettings(allow_anonymous=True, max_connections=7)
    assert Settings().with_values(**tomllib.loads(loaded.to_toml())) == loaded
    assert load(path, {**environ, "BRIDGE_LISTENER_SASL_1_MAX_CONNECTIONS": "9"}).listeners[0].settings == (
        ListenerSettings(allow_anonymous=True, max_connections=9)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[listener.OTHER]\n", "[listener] has a table for it: OTHER is not in kafka.listeners, which has PLAINTEXT"),
        ("[listener]\nmax_connections = 1\n", "listener.max_connections stands outside a table"),
        ("[listener.PLAINTEXT]\nmax_conections = 1\n", "setting listener.PLAINTEXT.max_conections; did you mean"),
        ("[listener.PLAINTEXT]\nmax_connections = -1\n", "max_connections = -1: must be an integer of at least 0"),
        ('[listener.PLAINTEXT]\nallow_anonymous = "yes"\n', "must be true or false"),
    ],
)
def test_a_wrong_table_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(said)):
        load(path, {})


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(SettingsError, match="known are BRIDGE_LISTENER_<NAME>_ALLOW_ANONYMOUS, "):
        load(None, {"BRIDGE_LISTENER_PLAINTEXT_LOUD": "1"})


@pytest.mark.parametrize(
    ("listeners", "advertised", "said"),
    [
        ("CLIENT://a:1,INSIDE://a:2", "CLIENT://lb:1", "needs INSIDE in kafka.advertised_listeners"),
        ("INTERNAL://a:1", "INTERNAL://lb:1", "the name INTERNAL is that of cluster.internal_listen"),
    ],
)
def test_one_address_is_one_for_each_listener(listeners: str, advertised: str, said: str) -> None:
    protocols = "CLIENT:PLAINTEXT,INSIDE:PLAINTEXT,INTERNAL:PLAINTEXT"
    values = {"listeners": listeners, "advertised_listeners": advertised, "listener_security_protocol_map": protocols}
    single = {"addressing": "single", "internal_listen": "a:3"}
    with pytest.raises(SettingsError, match=re.escape(said)):
        Settings().with_values(kafka=values, cluster=single)


@pytest.mark.parametrize(
    ("listeners", "names"), [("", ["PLAINTEXT"]), ("CLIENT://a:1", ["CLIENT"]), ("B://a:1,A://a:2", ["B", "A"])]
)
def test_listeners_may_be_moved(listeners: str, names: list[str]) -> None:
    protocols = "CLIENT:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT"
    settings = kafka(listeners=listeners, listener_security_protocol_map=protocols)
    where = {name: (Address("h", 5 + at), Address(name.lower(), 6)) for at, name in enumerate(names)}
    moved = settings.with_listeners(where, workers=1)
    assert {one.name: (one.listen, one.advertised) for one in moved.listeners} == where
    assert [one.name for one in moved.listeners] == names


@pytest.mark.parametrize(
    ("internal", "secret", "needed"),
    [("10.0.0.1:1", "", True), ("10.0.0.1:1", THIS, False), ("127.0.0.1:1", "", False)],
)
def test_where_clients_log_in_nodes_have_a_secret(internal: str, secret: str, needed: bool) -> None:
    values = {"listeners": "SASL_PLAINTEXT://a:1", "advertised_listeners": "SASL_PLAINTEXT://lb:1"}
    single = {"addressing": "single", "internal_listen": internal, "internal_secret_file": secret}
    try:
        Settings().with_values(kafka=values, cluster=single, security={"password_file": THIS})
        refused = ""
    except SettingsError as error:
        refused = str(error)
    assert ("cluster.internal_secret_file" in refused) is needed


def test_users_are_kept_in_pulsar_where_clients_log_in_and_there_is_no_file_of_them() -> None:
    login = Settings().with_values(kafka={"listeners": "SASL_PLAINTEXT://a:1"})
    assert login.keeps_users
    assert not login.with_values(security={"password_file": THIS}).keeps_users
    assert not Settings().keeps_users


def test_clients_with_tokens_need_an_issuer() -> None:
    kafka = {"listeners": "SASL_PLAINTEXT://127.0.0.1:1", "sasl_enabled_mechanisms": "OAUTHBEARER"}
    with pytest.raises(SettingsError, match="oauthbearer_jwks_file"):
        Settings().with_values(kafka=kafka)
    assert Settings().with_values(kafka=kafka, security={"oauthbearer_jwks_file": THIS}).security.has_tokens
