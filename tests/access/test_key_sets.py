from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.access.key_sets import MAX_BYTES, RETRY_SECONDS, FileKeySet, UrlKeySet
from bridge.errors import StartupError
from bridge.security.sasl.credentials import CredentialsUnavailable
from tests.security.issuer import key_set, public_jwk

REFRESH_SECONDS = 600.0
ONE, TWO = public_jwk("ES256", 1, kid="one"), public_jwk("ES256", 2, kid="two")


class Issuer:
    """What is published at the URL, a gate before it, and a clock."""

    def __init__(self) -> None:
        self.document: bytes | Exception = key_set(ONE)
        self.fetches = 0
        self.now = 1000.0
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self) -> bytes:
        self.fetches += 1
        await self.open.wait()
        if isinstance(self.document, Exception):
            raise self.document
        return self.document


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def keys(issuer: Issuer) -> AsyncIterator[UrlKeySet]:
    made = UrlKeySet(issuer.fetch, REFRESH_SECONDS, lambda: issuer.now)
    yield made
    await made.close()


async def ids(keys: UrlKeySet | FileKeySet, key_id: str | None) -> list[str | None]:
    return [key.key_id for key in await keys.find(key_id, "ES256")]


async def settle() -> None:
    """What can run without waiting has run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_keys_are_fetched_with_the_first_token_and_kept(issuer: Issuer, keys: UrlKeySet) -> None:
    assert issuer.fetches == 0
    assert await ids(keys, "one") == await ids(keys, "one") == await ids(keys, None) == ["one"]
    assert issuer.fetches == 1


async def test_an_unknown_key_id_fetches_at_most_once_in_a_while(issuer: Issuer, keys: UrlKeySet) -> None:
    assert await ids(keys, "one") == ["one"]
    issuer.document = key_set(ONE, TWO)
    assert await ids(keys, "two") == []
    issuer.now += RETRY_SECONDS
    assert await ids(keys, "two") == ["two"]
    assert issuer.fetches == 2
    for number in range(50):
        assert await ids(keys, f"unknown-{number}") == []
    issuer.now += RETRY_SECONDS
    assert await ids(keys, "unknown") == []
    assert issuer.fetches == 3


async def test_clients_that_wait_share_one_fetch(issuer: Issuer, keys: UrlKeySet) -> None:
    issuer.open.clear()
    waiting = [asyncio.ensure_future(ids(keys, "one")) for _ in range(20)]
    await settle()
    assert not any(task.done() for task in waiting)
    waiting.pop().cancel()  # a client that disconnects does not end it for others
    await settle()
    issuer.open.set()
    assert await asyncio.gather(*waiting) == [["one"]] * 19
    assert issuer.fetches == 1


async def test_old_keys_are_fetched_again_while_tokens_do_not_wait(issuer: Issuer, keys: UrlKeySet) -> None:
    assert await ids(keys, "one") == ["one"]
    issuer.document = key_set(TWO)
    issuer.now += REFRESH_SECONDS / 2
    issuer.open.clear()
    assert await ids(keys, "one") == ["one"]
    await settle()
    assert issuer.fetches == 2
    issuer.open.set()
    await settle()
    assert await ids(keys, "one") == []  # the issuer has withdrawn it
    assert await ids(keys, "two") == ["two"]


@pytest.mark.parametrize(
    "failure", [OSError("no route"), TimeoutError(), RuntimeError("a bug"), b"{}", b" " * (MAX_BYTES + 1)]
)
async def test_while_fetching_fails_old_keys_stay_and_the_log_says_so(
    issuer: Issuer, keys: UrlKeySet, failure: bytes | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert await ids(keys, "one") == ["one"]
    issuer.document = failure
    issuer.now += REFRESH_SECONDS / 2
    with caplog.at_level(logging.ERROR):
        with pytest.raises(CredentialsUnavailable):  # its key may be a new one
            await ids(keys, "two")
        with pytest.raises(CredentialsUnavailable):
            await ids(keys, "two")
    assert await ids(keys, "one") == ["one"]
    assert [record.getMessage() for record in caplog.records] == ["! token issuer's keys not fetched"]
    issuer.document = key_set(TWO)
    issuer.now += RETRY_SECONDS
    assert await ids(keys, "two") == ["two"]
    assert issuer.fetches == 3


async def test_a_withdrawn_key_is_taken_no_longer_than_keys_may_be_old(issuer: Issuer, keys: UrlKeySet) -> None:
    """Also where no token came in between, and none of another key."""
    assert await ids(keys, "one") == ["one"]
    issuer.document = key_set(TWO)
    issuer.now += REFRESH_SECONDS
    assert await ids(keys, "one") == []
    assert await ids(keys, "two") == ["two"]
    assert issuer.fetches == 2


async def test_keys_that_are_too_old_are_not_taken_while_there_are_no_newer_ones(
    issuer: Issuer, keys: UrlKeySet
) -> None:
    assert await ids(keys, "one") == ["one"]
    issuer.document = OSError("no route")
    issuer.now += REFRESH_SECONDS - 1
    assert await ids(keys, "one") == ["one"]
    await settle()
    issuer.now += 1
    for _ in range(3):
        with pytest.raises(CredentialsUnavailable):
            await ids(keys, "one")
    assert issuer.fetches == 2
    issuer.document = key_set(ONE)
    issuer.now += RETRY_SECONDS
    assert await ids(keys, "one") == ["one"]


async def test_keys_are_as_old_as_the_question_for_them(issuer: Issuer, keys: UrlKeySet) -> None:
    """The document may be of the moment in which it was asked for."""
    issuer.open.clear()
    waiting = asyncio.ensure_future(ids(keys, "one"))
    await settle()
    issuer.now += 9
    issuer.open.set()
    assert await waiting == ["one"]
    issuer.document = key_set(TWO)
    issuer.now += REFRESH_SECONDS - 9
    assert await ids(keys, "one") == []


async def test_without_any_keys_clients_may_try_again(issuer: Issuer, keys: UrlKeySet) -> None:
    issuer.document = OSError("no route")
    for _ in range(5):
        with pytest.raises(CredentialsUnavailable, match="cannot be fetched"):
            await ids(keys, None)
    assert issuer.fetches == 1


async def test_close_gives_up_a_fetch(issuer: Issuer, keys: UrlKeySet) -> None:
    issuer.open.clear()
    waiting = asyncio.ensure_future(ids(keys, "one"))
    await settle()
    await keys.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def write(path: Path, content: bytes, changed: int) -> Path:
    path.write_bytes(content)
    os.utime(path, (changed, changed))
    return path


async def test_a_file_of_keys_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = write(tmp_path / "keys.json", key_set(ONE), 1)
    keys = FileKeySet(path)
    assert await ids(keys, "one") == ["one"]
    write(path, key_set(TWO), 2)
    assert keys.refresh()
    assert (await ids(keys, "one"), await ids(keys, "two")) == ([], ["two"])
    write(path, b"{}", 3)
    assert not keys.refresh()
    assert await ids(keys, "two") == ["two"]


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_wrong_file_of_keys_is_an_error_at_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StartupError, match=r"JSON web key set .*keys\.json"):
        FileKeySet(path)
