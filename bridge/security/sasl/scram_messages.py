"""SCRAM's messages and proofs (RFC 5802, RFC 7677), both sides of them, without channel binding."""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from bridge.security.sasl.credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    MIN_SALT_BYTES,
    SCRAM_HASHES,
    ScramCredential,
    credential_of,
    salted_password,
)

_NONCE: Final = r"[!-+\--~]+"
_EXTENSIONS: Final = r"(?:,[bdfghjkloqtuwxyzA-Z]=[^,\0]+)*"
"""Those that are not understood are passed over, but for `m`, which says that they must not be (section 5.1)."""
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization_id>[^,\0]+))?,)"
    rf"(?P<bare>n=(?P<name>(?:[^=,\0]|=2C|=3D)+),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST: Final = re.compile(rf"r=({_NONCE}),s=([^,\0]+),i=([1-9][0-9]{{3,5}}){_EXTENSIONS}")
_CLIENT_FINAL: Final = re.compile(rf"(?P<unproven>c=([^,\0]+),r=({_NONCE}){_EXTENSIONS}),p=([^,\0]+)")
_SERVER_FINAL: Final = re.compile(rf"v=([^,\0]+){_EXTENSIONS}")


class ScramError(ValueError):
    """The other side has sent no such message, or has not the password. Nothing of a secret is in the text."""


class ClientFirst(NamedTuple):
    """The message that a client's SCRAM begins with."""

    header: str
    """As it was sent, to be repeated in its last message."""
    authorization_id: str | None
    """As it was sent."""
    bare: str
    sent_name: str
    nonce: str

    @property
    def name(self) -> str:
        """Without what stands for signs of the protocol; not prepared."""
        return self.sent_name.replace("=2C", ",").replace("=3D", "=")


class ClientFinal(NamedTuple):
    """The message that a client's SCRAM ends with."""

    unproven: str
    """All of it but the proof."""
    header: bytes
    nonce: str
    proof: bytes


def client_first(text: str) -> ClientFirst:
    """A client's first message, read."""
    if text.startswith("p="):
        raise ScramError("channel binding is not supported")
    found = _CLIENT_FIRST.fullmatch(text)
    if found is None:
        raise ScramError("the first message is not of RFC 5802's form")
    return ClientFirst(found["header"], found["authorization_id"], found["bare"], found["name"], found["nonce"])


def server_first(nonce: str, credential: ScramCredential) -> str:
    """A server's first message; `nonce`: the client's, with the server's behind it."""
    return f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"


def client_final(text: str) -> ClientFinal:
    """A client's last message, read."""
    found = _CLIENT_FINAL.fullmatch(text)
    if found is None:
        raise ScramError("the last message is not of RFC 5802's form")
    return ClientFinal(found["unproven"], _base64(found[2]), found[3], _base64(found[4]))


def server_final(credential: ScramCredential, said: str, proof: bytes) -> str:
    """A server's last message, by which it shows that it knows the user; ScramError where the proof is wrong.

    `said`: the first messages of both and the client's last one, each without header and proof, with commas between.
    """
    name = SCRAM_HASHES[credential.mechanism]
    signature = hmac.digest(credential.stored_key, said.encode(), name)
    if len(proof) != len(signature):
        raise ScramError("the proof has another length")
    client_key = _xor(signature, proof)
    if not hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key):
        raise ScramError("the proof is wrong")
    return f"v={b64encode(hmac.digest(credential.server_key, said.encode(), name)).decode()}"


class ScramClient:
    """A client's side of one log-in."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str) -> None:
        """`nonce`: random, of this log-in alone; name and password: of ASCII, without commas and equals signs."""
        self._mechanism = mechanism
        self._password = password.encode("ascii")
        self._nonce = nonce
        self._bare = f"n={name},r={nonce}"
        self._verifier = ""

    def first(self) -> str:
        """The first message."""
        return f"n,,{self._bare}"

    def final(self, answer: str) -> str:
        """The last message, by the server's first one."""
        found = _SERVER_FIRST.fullmatch(answer)
        if found is None:
            raise ScramError("the server's first message is not of RFC 5802's form")
        nonce, salt, iterations = found[1], _base64(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ScramError(f"the server wants {iterations} iterations")
        if len(salt) < MIN_SALT_BYTES:
            raise ScramError("the server's salt is too short")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        own = credential_of(self._mechanism, salted, salt, iterations)
        unproven = f"c={b64encode(b'n,,').decode()},r={nonce}"
        said = f"{self._bare},{answer},{unproven}"
        name = SCRAM_HASHES[self._mechanism]
        client_key = hmac.digest(salted, b"Client Key", name)
        proof = _xor(client_key, hmac.digest(own.stored_key, said.encode(), name))
        self._verifier = server_final(own, said, proof)
        return f"{unproven},p={b64encode(proof).decode()}"

    def check(self, answer: str) -> None:
        """ScramError where the server has not shown that it knows the password."""
        found = _SERVER_FINAL.fullmatch(answer)
        if found is None or not hmac.compare_digest(f"v={found[1]}".encode(), self._verifier.encode()):
            raise ScramError("the server does not know the password")


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramError("a part of the message is no base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
