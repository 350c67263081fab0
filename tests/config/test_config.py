"""Settings: what the file and the environment may say, and how a mistake is named."""

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.config import Address, KafkaSettings, Settings, admin_urls, load
from bridge.errors import SettingsError

SHIPPED = Path(__file__).parents[2] / "config" / "bridge.toml"


def write(directory: Path, text: str) -> Path:
    path = directory / "bridge.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(text: str, directory: Path) -> str:
    with pytest.raises(SettingsError) as raised:
        load(write(directory, text), {})
    return str(raised.value)


def test_the_shipped_file_is_complete_and_at_the_defaults() -> None:
    assert tomllib.loads(SHIPPED.read_text(encoding="utf-8")) == asdict(Settings())
    assert load(SHIPPED, {}) == Settings()


def test_every_shipped_setting_stands_under_a_comment() -> None:
    above = ""
    for line in SHIPPED.read_text(encoding="utf-8").splitlines():
        # settings that belong together share one comment; a section or an empty line ends its reach
        assert not re.match(r"\w+ =", line) or above.startswith("#") or re.match(r"\w+ =", above), line
        above = line


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '[kafka]\nlisten = "127.0.0.1:1"\nnode_id = 1\n')
    environ = {"BRIDGE_KAFKA_NODE_ID": "2", "BRIDGE_RETENTION_ENSURE": "FALSE", "BRIDGE_KAFKA_IDLE_SECONDS": "0.5"}
    settings = load(path, environ)
    assert (settings.kafka.listen, settings.kafka.node_id, settings.kafka.idle_seconds) == ("127.0.0.1:1", 2, 0.5)
    assert settings.retention.ensure is False


def test_what_kubernetes_injects_for_a_service_is_no_setting() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_KAFKA", "PORT", "PORT_9092_TCP", "PORT_9092_TCP_ADDR")
    environ = {f"{service}_{name}": "tcp://10.0.0.1:9092" for service in ("BRIDGE", "BRIDGE_KAFKA") for name in names}
    assert load(None, environ) == Settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[kafka]\nlistn = "x:1"', "unknown setting kafka.listn; did you mean listen?"),
        ("[kafak]\nnode_id = 1", "unknown section [kafak]; did you mean kafka?"),
        (
            "[zzz]\n",
            "unknown section [zzz]; known are kafka, cluster, pulsar, retention, storage, groups, transactions, http",
        ),
        ("node_id = 1", "node_id stands outside a section"),
        ("[kafka", 'lines are [section], name = "text"'),
        ("[kafka]\nnode_id = 1\nnode_id = 2", "; what this line sets is set above: keep one"),
        ("[kafka]\n[log]\n[kafka]", "; this section is above: put all of its settings there"),
        ('[kafka]\nnode_id = "1"', 'kafka.node_id = "1": must be an integer from -1 to 2147483647'),
        ("[kafka]\nnode_id = true", "kafka.node_id = true: must be an integer"),
        ("[kafka]\nauto_create_topics = 1", "kafka.auto_create_topics = 1: must be true or false"),
        ('[kafka]\nlisten = "9092"', 'kafka.listen = "9092": must be host:port'),
        ('[kafka]\nlisten = "0.0.0.0:9092"', "set kafka.advertised"),
        ("[kafka]\nmemory_budget_bytes = 1024", "below kafka.max_request_bytes"),
        ("[kafka]\nidle_seconds = nan", "kafka.idle_seconds = nan: must be seconds"),
        ('[pulsar]\nservice_url = "http://h:1"', "must be pulsar://host:port or pulsar+ssl://host:port"),
        ('[pulsar]\nadmin_url = "h:1"', "must be http://host:port or https://host:port"),
        (
            '[pulsar]\nadmin_url = "http://h:1,h:x"',
            "must be http://host:port or https://host:port, more hosts by commas",
        ),
        ('[pulsar]\nservice_url = "pulsar://a:1,pulsar://b:1"', "the scheme stands once, before the first host"),
        ('[pulsar]\nservice_url = "pulsar://a:1/public/default"', "; tenant and namespace are two settings"),
        ('[pulsar]\nadmin_url = "http://a:1,http://b:1"', "the scheme stands once, before the first host"),
        ('[pulsar]\nadmin_url = "http://a:1/,b:1/"', "must be http://host:port"),
        ('[pulsar]\ntoken = "token:ey.."', "set it to what stands behind token:"),
        ('[pulsar]\nnamespace = "a/b"', 'pulsar.namespace = "a/b": must be letters'),
        ('[pulsar]\ntoken_file = "/no/such"', 'pulsar.token_file = "/no/such": must be a file this process can read'),
        ('[pulsar]\ntls_cert_file = "/dev/null"', 'pulsar.tls_cert_file = "/dev/null": must be a file'),
        ("[groups]\nslots = 0", "groups.slots = 0: must be an integer from 1 to 1024"),
        ('[groups]\nmirror_pattern = "("', 'groups.mirror_pattern = "(": must be a regular expression'),
        ("[groups]\nmin_session_timeout_ms = 1800001", "is above groups.max_session_timeout_ms = 1800000"),
        ("[retention]\nminutes = 0", "retention.minutes = 0: must be an integer from 1"),
        ('[log]\nlevel = "loud"', 'must be one of "debug", "info", "warning", "error"'),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(text, tmp_path)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("BRIDGE_KAFKA_LISTN", "h:1", "did you mean BRIDGE_KAFKA_LISTEN?"),
        ("BRIDGE_ZZ", "1", "unknown environment variable BRIDGE_ZZ; config/bridge.toml lists every setting"),
        ("BRIDGE_KAFKA_NODE_ID", "one", 'BRIDGE_KAFKA_NODE_ID = "one": must be an integer'),
        ("BRIDGE_RETENTION_ENSURE", "yes", 'BRIDGE_RETENTION_ENSURE = "yes": must be true or false'),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        load(None, {variable: value})


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(
        '[kafka]\nlisten = "nonsense"\nnosuch = 3\ndefault_partitions = 0\n[what]\na = 1\n'
        '[listener.X]\nssl_client_auth = "maybe"\n[http]\nlisten = 5\n'
        # these two do not go together, but perhaps only for lack of what was wrong
        '[pulsar]\nstate_namespace = "public/default"\n'
    )
    with pytest.raises(SettingsError) as raised:
        load(file, {"BRIDGE_KAFKA_WORKERS": "x", "BRIDGE_ZZ": "1"})
    said = str(raised.value).splitlines()
    assert [line.removeprefix(f"{file}: ").partition(";")[0].partition(": must")[0] for line in said] == [
        'BRIDGE_KAFKA_WORKERS = "x"',
        "unknown environment variable BRIDGE_ZZ",
        "unknown setting kafka.nosuch",
        'kafka.listen = "nonsense"',
        "kafka.default_partitions = 0",
        "unknown section [what]",
        'listener.X.ssl_client_auth = "maybe"',
        "http.listen = 5",
    ]


def test_what_does_not_go_together_in_a_section_hides_nothing_of_the_others(tmp_path: Path) -> None:
    said = refused('[kafka]\nlisten = "0.0.0.0:9092"\n[http]\nlistn = "h:1"\n[log]\nlevel = "loud"\n', tmp_path)
    assert [line.split(": ")[1] for line in said.splitlines()] == [
        'kafka.listen = "0.0.0.0:9092" is every interface, which clients cannot be told to connect to',
        "unknown setting http.listn; did you mean listen?",
        'log.level = "loud"',
    ]


def test_a_section_is_not_judged_by_what_was_wrong_in_it(tmp_path: Path) -> None:
    said = refused('[kafka]\nlisten = "0.0.0.0:9092"\nadvertised = "nonsense"\n', tmp_path)
    assert "kafka.advertised" in said
    assert "every interface" not in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"{tmp_path}/none.toml: cannot read the settings: no such file")):
        load(tmp_path / "none.toml", {})


def test_a_byte_order_mark_is_passed_over_and_another_encoding_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_bytes(b"\xef\xbb\xbf[kafka]\r\nnode_id = 7\r\n")
    assert load(file, {}).kafka.node_id == 7
    file.write_bytes(b'[kafka]\nrack = "M\xfcnchen"\n')
    with pytest.raises(SettingsError, match=re.escape(f"{file}: line 2 is not UTF-8: save the file in this encoding")):
        load(file, {})


@pytest.mark.parametrize(
    ("kafka", "internal", "http", "same"),
    [
        ("h:1", "", "h:1", "kafka.listen and http.listen"),
        ("h:1", "", "0.0.0.0:1", "kafka.listen and http.listen"),
        ("h:1", "h:1", "h:2", "kafka.listen and cluster.internal_listen"),
        ("h:1", "h:2", "h:2", "cluster.internal_listen and http.listen"),
        ("h:1", "", "other:1", ""),
        ("h:0", "", "h:0", ""),
    ],
)
def test_two_of_ours_at_one_place_are_refused(kafka: str, internal: str, http: str, same: str) -> None:
    environment = {"BRIDGE_KAFKA_LISTEN": kafka, "BRIDGE_CLUSTER_INTERNAL_LISTEN": internal, "BRIDGE_HTTP_LISTEN": http}
    try:
        load(None, environment)
        said = ""
    except SettingsError as error:
        said = str(error).partition(" have the same port")[0]
    assert said == same


def test_half_a_client_certificate_is_refused(tmp_path: Path) -> None:
    certificate = write(tmp_path, "")
    with pytest.raises(SettingsError, match=re.escape("pulsar.tls_cert_file is set without pulsar.tls_key_file")):
        load(None, {"BRIDGE_PULSAR_TLS_CERT_FILE": str(certificate)})


@pytest.mark.parametrize(
    ("kafka", "cluster", "said"),
    [
        ("", "", "internal_listen"),
        ('advertised = "lb:9092"', "", "internal_listen"),
        ("", 'internal_listen = "10.0.0.1:9094"', "kafka.advertised"),
        ('advertised = "lb:9092"', 'internal_listen = "0.0.0.0:9094"', "internal_advertised"),
        ('advertised = "lb:9092"\nworkers = 2', 'internal_listen = "10.0.0.1:9094"', "kafka.workers"),
    ],
)
def test_one_address_needs_its_internal_one(kafka: str, cluster: str, said: str, tmp_path: Path) -> None:
    text = f'[kafka]\n{kafka}\n[cluster]\naddressing = "single"\n{cluster}\n'
    assert said in refused(text, tmp_path)


@pytest.mark.parametrize(
    ("kafka", "cluster", "said"),
    [
        ("", 'internal_listen = "0.0.0.0:9094"', "internal_advertised"),
        ("workers = 2", 'internal_listen = "10.0.0.1:9094"', "kafka.workers"),
        ("", 'internal_listen = "10.0.0.1:9094"', ""),
    ],
)
def test_nodes_with_addresses_of_their_own_may_have_an_internal_one(
    kafka: str, cluster: str, said: str, tmp_path: Path
) -> None:
    text = f"[kafka]\n{kafka}\n[cluster]\n{cluster}\n"
    if said:
        assert said in refused(text, tmp_path)
    else:
        assert load(write(tmp_path, text), {}).cluster.internal_listen == "10.0.0.1:9094"


def test_one_address(tmp_path: Path) -> None:
    text = '[kafka]\nadvertised = "lb:9092"\n[cluster]\naddressing = "single"\ninternal_listen = "0.0.0.0:9094"\n'
    loaded = load(write(tmp_path, text + 'internal_advertised = "10.0.0.1:9094"\n'), {})
    assert loaded.cluster.is_single
    assert not Settings().cluster.is_single


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    settings = load(None, {"BRIDGE_PULSAR_TOKEN": "s3cret"})
    assert settings.pulsar.token == "s3cret"  # noqa: S105
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in refused('[pulsar]\ntoken = ["s3cret"]', tmp_path)
    with pytest.raises(SettingsError, match="both set"):
        load(write(tmp_path, ""), {"BRIDGE_PULSAR_TOKEN": "s3cret", "BRIDGE_PULSAR_TOKEN_FILE": str(SHIPPED)})


def test_rules_hold_for_settings_made_in_code() -> None:
    with pytest.raises(SettingsError, match=re.escape("kafka.default_partitions = 0")):
        KafkaSettings(default_partitions=0)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**31 - 1), st.booleans())
def test_what_to_toml_writes_load_reads(text: str, number: int, flag: bool) -> None:
    settings = Settings().with_values(
        pulsar={"token": text},
        kafka={"node_id": number},
        retention={"ensure": flag},
        storage={"tail_idle_seconds": 1.5},
    )
    assert Settings().with_values(**tomllib.loads(settings.to_toml())) == settings


@pytest.mark.parametrize("text", ["h:1", "127.0.0.1:65535", "[::1]:9092"])
def test_an_address_prints_as_it_was_read(text: str) -> None:
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize("text", ["", "h", ":1", "h:", "h:65536", "h:-1", "h:1_0", "::1:9092", "h /x:1", "[h:1", "h:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(text)


def test_the_hosts_of_an_admin_url_share_its_scheme_and_path() -> None:
    assert admin_urls("https://a:1,[::1]:2/pulsar/") == ["https://a:1/pulsar", "https://[::1]:2/pulsar"]
    assert admin_urls("http://a:8080") == ["http://a:8080"]


@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        ({"super_users": "User:root"}, "set the authorizer"),
        ({"allow_everyone_if_no_acl_found": True}, 'kafka.authorizer = "kafka" alone'),
        ({"authorizer": "kafka", "super_users": "root"}, "type:name"),
        ({"authorizer": "acls"}, "one of"),
    ],
)
def test_an_authorizer_that_would_not_do_what_its_settings_say_is_refused(kafka: dict[str, object], why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)):
        Settings().with_values(kafka=kafka)


def test_super_users_are_named_with_semicolons_between_them() -> None:
    kafka = {"authorizer": "kafka", "super_users": "User:root; User:CN=admin,O=Example;"}
    assert Settings().with_values(kafka=kafka).kafka.super_user_names == ["User:root", "User:CN=admin,O=Example"]


def test_for_others_than_the_bridge_nothing_is_left_by_which_it_says_who_it_is() -> None:
    place = {"service_url": "pulsar+ssl://a:1", "tls_ca_file": __file__, "tls_verify_hostname": False}
    own = {
        "proxy_token_file": __file__, "tls_cert_file": __file__, "tls_key_file": __file__,
        "token_public_key_file": __file__, "token_auth_claim": "role",
    }  # fmt: skip
    oauth2 = {"oauth2_key_file": __file__, "oauth2_audience": "x", "oauth2_scope": "x", "oauth2_ca_file": __file__}
    expected = Settings().with_values(pulsar=place).pulsar
    for login in ({"token": "a secret"}, {"token_file": __file__}, oauth2):
        settings = Settings().with_values(pulsar={**place, **own, **login}).pulsar
        assert settings.without_identity() == expected
