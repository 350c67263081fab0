"""What strangers send to log in, and what is read of who they are: mechanisms, tokens, keys, files, certificates."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from jwt import PyJWK

from bridge.access import password_file
from bridge.apis import describe_acls, describe_client_quotas, describe_user_scram_credentials
from bridge.kafka import message
from bridge.kafka.schema import with_defaults
from bridge.security import distinguished_name, jwks, records
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.mapping import NoMatchingRule, PrincipalMapping
from bridge.security.names import prepared_name
from bridge.security.principal import user
from bridge.security.quotas.entities import QuotaKey, checked_entity
from bridge.security.sasl.credentials import LoginAttempt
from bridge.security.sasl.mechanism import Challenge, Done, Exchange, Failed, Step
from bridge.security.sasl.oauthbearer import INVALID_TOKEN, OAuthBearer
from bridge.security.sasl.plain import Plain
from bridge.security.sasl.scram import Scram
from bridge.security.tokens import IssuedTokens, TokenRules, TokenVerifier
from tests.fuzz.decoders.pulsar import JSON_WORDS
from tests.fuzz.decoders.target import Input, Target, finished, part, same
from tests.security.users import DECOYS, NOW, Users, Written, credential

# ---- mechanisms ------------------------------------------------------------------------------------------------------


def _took(exchange: Exchange, messages: Sequence[bytes]) -> bool:
    """Give an exchange its messages: whether it went on or let in; the name of who is let in can be told."""
    went_on = False
    for one in messages:
        step: Step = finished(exchange.step(one, NOW))  # type: ignore[arg-type]
        if isinstance(step, Failed):
            step.reason.encode()
        elif not isinstance(step, Challenge) or step.data != INVALID_TOKEN:
            went_on = True
        if isinstance(step, Done):
            str(step.principal).encode()
            same(isinstance(finished(exchange.step(one, NOW)), Failed), True, "the end of an exchange")  # type: ignore[arg-type]
    return went_on


class _Passwords:
    """One user; no hash, which would be most of the time."""

    async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
        """Whether it is the one."""
        same(prepared_name(name), name, "a name and its prepared form")
        return LoginAttempt(user(name)) if (name, password) == ("alice", "secret") else None


def check_plain(data: bytes) -> bool:
    """A message of PLAIN."""
    return _took(Plain(_Passwords()).begin(), [data])


_PASSWORDS = {"alice": "secret of alice", "a=b,c": "secret of abc"}


@cache
def _users() -> Users:
    return Users.of(_PASSWORDS)


def _scram(name: str) -> Scram:
    return Scram(name, _users(), DECOYS, lambda: "server-nonce")


def check_scram(data: bytes) -> bool:
    """Two messages of SCRAM, of any bytes."""
    given = Input(data)
    name = ("SCRAM-SHA-256", "SCRAM-SHA-512")[given.number(2)]
    return _took(_scram(name).begin(), [given.part(), given.rest()])


def scram_messages() -> list[bytes]:
    """Log-ins that succeed, with and without an authorization id."""
    found = []
    for at, name in enumerate(("SCRAM-SHA-256", "SCRAM-SHA-512")):
        for header in ("n,,", "y,,", "n,a=alice,"):
            client, exchange = Written(name, "alice", _PASSWORDS["alice"], header=header), _scram(name).begin()
            answer = finished(exchange.step(client.first(), NOW))
            last = client.final(answer.data) if isinstance(answer, Challenge) else b""
            found.append(bytes([at]) + part(client.first()) + last)
    return found


# ---- tokens ----------------------------------------------------------------------------------------------------------

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_CLAIMS = {"sub": "alice", "iss": "https://issuer", "aud": "bridge", "iat": NOW - 10, "exp": NOW + 60, "scope": "a b"}
_HEADER = {"alg": "EdDSA", "typ": "JWT", "kid": "1"}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _published() -> dict[str, Any]:
    return {"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": _text(_KEY.public_key().public_bytes_raw())}


class _Kept:
    """The issuer's keys."""

    def __init__(self) -> None:
        self._keys = jwks.parse(json.dumps({"keys": [_published()]}).encode())

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """Those that fit."""
        return self._keys.find(key_id, algorithm)


@cache
def _bearer() -> OAuthBearer:
    rules = TokenRules(expected_audience=frozenset({"bridge"}), required_scope=frozenset({"a"}))
    return OAuthBearer(IssuedTokens({"https://issuer": TokenVerifier(_Kept(), rules)}))


def check_token(data: bytes) -> bool:
    """Any message of OAUTHBEARER; or a token of any header and claims, which the issuer has signed."""
    given = Input(data)
    if given.number(2):
        return _took(_bearer().begin(), [given.rest()])
    signed = f"{_text(given.part())}.{_text(given.rest())}"
    token = f"{signed}.{_text(_KEY.sign(signed.encode()))}"
    return _took(_bearer().begin(), [f"n,,\1auth=Bearer {token}\1\1".encode()])


def tokens() -> list[bytes]:
    """A good one in parts, and messages."""
    header, claims = json.dumps(_HEADER).encode(), json.dumps(_CLAIMS).encode()
    signed = f"{_text(header)}.{_text(claims)}"
    token = f"{signed}.{_text(_KEY.sign(signed.encode()))}".encode()
    messages = (b"n,,\1auth=Bearer " + token + b"\1\1", b"n,a=alice,\1host=h\1port=1\1auth=bearer " + token + b"\1\1")
    return [b"\0" + part(header) + claims, *(b"\1" + one for one in messages)]


def check_key_set(data: bytes) -> bool:
    """A key set as an issuer publishes it: ValueError, or keys that each fit their algorithm."""
    try:
        found = jwks.parse(data)
    except ValueError:
        return False
    keys = [key for algorithm in jwks.ALGORITHMS for key in found.find(None, algorithm)]
    return bool(keys)


_EC = {
    "kty": "EC", "crv": "P-256", "alg": "ES256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}  # fmt: skip
_RSA = {"kty": "RSA", "use": "sig", "key_ops": ["verify"], "n": _text(b"\xc1" + bytes(254) + b"\x01"), "e": "AQAB"}

# ---- files and rules -------------------------------------------------------------------------------------------------


def check_password_file(data: bytes) -> bool:
    """A file of users: ValueError, or users whose lines are read as the same users."""
    try:
        found = password_file._parse(data)
    except ValueError:
        return False
    lines = [password_file.line_of(name, kept) for (_, name), kept in found.credentials.items()]
    again = password_file._parse("\n".join(lines).encode())
    same(again.credentials, found.credentials, "users")
    return True


def password_files() -> list[bytes]:
    """Users of both mechanisms, with the secret."""
    lines = [
        "# users", "decoy-secret:" + base64.b64encode(bytes(range(32))).decode(),
        password_file.line_of("alice", credential("SCRAM-SHA-256", "secret")),
        password_file.line_of("alice", credential("SCRAM-SHA-512", "secret")),
        password_file.line_of("møller:", credential("SCRAM-SHA-256", "secret")),
    ]  # fmt: skip
    return ["\n".join(lines).encode()]


def check_mapping(data: bytes) -> bool:
    """Mapping rules and a name: ValueError or NoMatchingRule, or a name that is not empty."""
    given = Input(data)
    rules, name = given.part().decode("utf-8", "replace"), given.rest().decode("utf-8", "replace")
    try:
        found = PrincipalMapping(rules).name(name)
    except (ValueError, NoMatchingRule):
        return False
    found.encode()
    same(bool(found), True, "a name that is there")
    return True


def mappings() -> list[bytes]:
    """Of Kafka's documentation."""
    name = b"CN=service,OU=Unit\\, two,O=Organisation,L=City,ST=State,C=DE"
    rules = (
        b"DEFAULT", b"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L,DEFAULT", b"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        b"RULE:^cn=(.*)$/x\\/$1/ , DEFAULT",
    )  # fmt: skip
    return [part(one) + name for one in rules]


def check_certificate(data: bytes) -> bool:
    """A client's certificate: ValueError, or a name."""
    try:
        found = distinguished_name.of_certificate(data)
    except ValueError:
        return False
    found.encode()
    return True


def certificates() -> list[bytes]:
    """One with attributes of several kinds."""
    from datetime import UTC, datetime

    oid = x509.NameOID
    name = x509.Name([
        x509.NameAttribute(oid.COUNTRY_NAME, "DE"), x509.NameAttribute(oid.ORGANIZATION_NAME, 'a, "b" #'),
        x509.NameAttribute(oid.COMMON_NAME, " service "), x509.NameAttribute(oid.EMAIL_ADDRESS, "a@b"),
        x509.NameAttribute(oid.DN_QUALIFIER, "q"),
    ])  # fmt: skip
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, _KEY.public_key(), 7, start, datetime(2036, 1, 1, tzinfo=UTC))
    return [made.sign(_KEY, None).public_bytes(Encoding.DER)]


# ---- what is kept in Pulsar ------------------------------------------------------------------------------------------


def check_security_records(data: bytes) -> bool:
    """Keyed records: none fails; what they make comes back from its own records, and clients can be told of it."""
    given = Input(data)
    state = records.SecurityState()
    while key := given.part():
        state.apply(key.decode("utf-8", "replace"), given.part() or None)
    again = records.SecurityState()
    for kept in _records(state):
        again.apply(*kept)
    same(again.credentials, state.credentials, "users")
    same(again.entries, state.entries, "entries")
    same(again.quotas, state.quotas, "quotas")
    _tell(state)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        state.iterations(mechanism)
    return bool(state.credentials or state.entries or state.quotas or state.decoy_secret)


def _records(state: records.SecurityState) -> list[records.Kept]:
    users = [records.user_record(name, kept) for (_, name), kept in state.credentials.items()]
    entries = [records.acl_record(entry) for entry in state.entries]
    return users + entries + [records.quota_record(*whose, value) for whose, value in state.quotas.items()]


def _tell(state: records.SecurityState) -> None:
    """Write what clients are told, to the byte."""
    for _, name in state.credentials:
        message.encode(with_defaults(describe_user_scram_credentials.Result, user=name), 0, True)
    for entry in state.entries:
        told = with_defaults(describe_acls.Acl, principal=entry.principal, host=entry.host)
        message.encode(told, 3, True)
        message.encode(with_defaults(describe_acls.Resource, resource_name=entry.name), 3, True)
    for (entity, _), value in state.quotas.items():
        message.encode(with_defaults(describe_client_quotas.Value, value=value), 1, True)
        for kind, named in entity:
            message.encode(with_defaults(describe_client_quotas.Entity, entity_type=kind, entity_name=named), 1, True)


def security_records() -> list[bytes]:
    """A record of each kind."""
    entry = AccessControlEntry(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
    )
    entity = checked_entity([("user", "alice"), ("client-id", None)])
    made = [
        records.user_record("alice", credential("SCRAM-SHA-256", "secret")), records.acl_record(entry),
        records.quota_record(entity, QuotaKey.PRODUCE, 1024.0), records.secret_record(bytes(range(32))),
        records.Kept("later:[]", b"{}"),
    ]  # fmt: skip
    return [b"".join(part(key.encode()) + part(value or b"") for key, value in made)]


_SCRAM_WORDS = (
    b"n,,",
    b"y,,",
    b"p=tls-unique,,",
    b"n=",
    b",r=",
    b"=2C",
    b"=3D",
    b",m=",
    b",tokenauth=",
    b",p=",
    b"c=biws",
)
_KEY_WORDS = (
    b'"kid":',
    b'"kty":"EC"',
    b'"crv":"P-521"',
    b'"crv":"Ed25519"',
    b'"kty":"RSA"',
    b'"n":"',
    b'"e":"',
    b'"alg":',
)
_TOKEN_WORDS = (b'"crit":', b'"b64":false', b'"nbf":', b'"alg":"none"')
_FILE_WORDS = (b":SCRAM-SHA-256$4096:", b"decoy-secret:", b"\xc2\xad", "＃".encode())
_RULE_WORDS = (b"RULE:", b"DEFAULT", b"/$1/L", b"(.*)", b"\\/", b"$0", b"(?i)")
_HALF_A_CHARACTER = [
    security_records()[0].replace(
        b'\x00\x1euser:["SCRAM-SHA-256","alice"]', b'\x00\x1fuser:["SCRAM-SHA-256","\\ud800"]'
    )
]
_SPACE_BEFORE_THE_HASH = password_files()[0].replace(b"alice:", b"alice :")

TARGETS = (
    Target("plain", check_plain, lambda: [b"\0alice\0secret", b"alice\0alice\0secret", "\0mø\0s".encode()]),
    Target("scram", check_scram, scram_messages, _SCRAM_WORDS),
    Target("tokens", check_token, tokens, (*JSON_WORDS, *_TOKEN_WORDS), 24_576),
    Target(
        "key_sets", check_key_set, lambda: [json.dumps({"keys": [_EC, _RSA, _published()]}).encode()],
        (*JSON_WORDS, *_KEY_WORDS),
    ),
    Target("password_files", check_password_file, password_files, _FILE_WORDS, regressions=[_SPACE_BEFORE_THE_HASH]),
    Target("principal_mapping", check_mapping, mappings, _RULE_WORDS),
    Target("certificates", check_certificate, certificates),
    Target("security_records", check_security_records, security_records, JSON_WORDS, 8192, _HALF_A_CHARACTER),
)  # fmt: skip
