"""New connections as fast as they come, each with a full handshake and perhaps a log-in: how many, as JSON."""

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import struct
import threading
import time
from functools import cache
from typing import Any

from bench import wire
from bench.secured import PASSWORD, SCRAM, USER
from bridge.apis import api_versions, sasl_authenticate, sasl_handshake
from bridge.requests.api import Api

THREADS = 8
_HASH = "sha512"


class Connection:
    """A blocking one, made to be given up."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        raw = socket.create_connection(address, timeout=30)
        self._socket = context.wrap_socket(raw, server_hostname="localhost")
        if self._socket.session_reused:
            raise ValueError("not a full handshake")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, api: Api, version: int, request: object) -> Any:
        """One request, and its answer."""
        self._socket.sendall(wire.request(api, version, request))
        (size,) = struct.unpack(">i", self._read(4))
        return wire.response(api, version, self._read(size)[4:])

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self._socket.recv(count - len(found))
            if not more:
                raise ConnectionError("the server hung up")
            found += more
        return found

    def log_in(self, mechanism: str) -> None:
        """By PLAIN or SCRAM."""
        if self.ask(sasl_handshake.API, 1, sasl_handshake.Request(mechanism=mechanism)).error_code:
            raise ValueError(f"{mechanism} is refused")
        if mechanism == "PLAIN":
            self._prove(f"\0{USER}\0{PASSWORD}".encode())
            return
        bare = f"n={USER},r={secrets.token_hex(12)}"
        first = self._prove(f"n,,{bare}".encode()).decode()
        nonce, salt, iterations = (part[2:] for part in first.split(","))
        client_key, server_key = keys(salt, int(iterations))
        without_proof = f"c=biws,r={nonce}"
        message = f"{bare},{first},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(_HASH, client_key).digest(), message, _HASH)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        last = self._prove(f"{without_proof},p={proof}".encode())
        if last != b"v=" + base64.b64encode(hmac.digest(server_key, message, _HASH)):
            raise ValueError("the server does not know the password")

    def _prove(self, data: bytes) -> bytes:
        answer = self.ask(sasl_authenticate.API, 1, sasl_authenticate.Request(auth_bytes=data))
        if answer.error_code:
            raise ValueError(answer.error_message)
        return bytes(answer.auth_bytes)


@cache
def keys(salt: str, iterations: int) -> tuple[bytes, bytes]:
    """The client's and the server's (RFC 5802). Kept: what the client pays for a password is not the question here."""
    salted = hashlib.pbkdf2_hmac(_HASH, PASSWORD.encode(), base64.b64decode(salt), iterations)
    return hmac.digest(salted, b"Client Key", _HASH), hmac.digest(salted, b"Server Key", _HASH)


def once(address: tuple[str, int], context: ssl.SSLContext, mechanism: str) -> None:
    """A connection until its client is let in; an answer shows that the server is done as well."""
    connection = Connection(address, context)
    try:
        if mechanism:
            connection.log_in(mechanism)
        else:
            connection.ask(api_versions.API, 0, api_versions.Request())
    finally:
        connection.close()


def load(address: tuple[str, int], authority: str, mechanism: str, seconds: float) -> dict[str, float]:
    """From several threads for so long."""
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    once(address, context, mechanism)
    counts, failures = [0] * THREADS, list[BaseException]()
    start = time.perf_counter()

    def work(number: int) -> None:
        try:
            while time.perf_counter() < start + seconds:
                once(address, context, mechanism)
                counts[number] += 1
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return {"connections": sum(counts), "seconds": time.perf_counter() - start}


def main() -> None:
    """Print the result as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--authority", required=True)
    parser.add_argument("--mechanism", choices=["none", "PLAIN", SCRAM], required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    mechanism = "" if options.mechanism == "none" else options.mechanism
    print(json.dumps(load((host, int(port)), options.authority, mechanism, options.seconds)))


if __name__ == "__main__":
    main()
