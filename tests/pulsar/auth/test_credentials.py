from pathlib import Path

import jwt
import pytest

from bridge.pulsar.auth.credentials import StaticToken, TokenFile, expiry_of
from bridge.pulsar.types import PulsarError
from bridge.telemetry.metrics import PulsarMetrics

KEY = "k" * 32


async def test_a_file_is_read_for_each_use_and_its_token_outlives_a_moment_without_it(tmp_path: Path) -> None:
    metrics, file = PulsarMetrics(), tmp_path / "token"
    first, second = (jwt.encode({"sub": "bridge", "exp": end}, KEY, "HS256") for end in (4_000_000_000, 4_000_000_001))
    file.write_text(f"{first}\n")
    token = TokenFile(str(file), metrics)
    assert (await token.data()).decode() == first
    assert metrics.token_expires_seconds == {"file": 4_000_000_000}
    file.write_text("")
    assert (await token.data()).decode() == first
    file.unlink()
    assert (await token.data()).decode() == first
    file.write_text(second)
    assert (await token.data()).decode() == second
    assert metrics.token_expires_seconds == {"file": 4_000_000_001}
    file.write_text(jwt.encode({"sub": "bridge"}, KEY, "HS256"))
    await token.data()
    assert metrics.token_expires_seconds == {}


async def test_a_file_that_was_never_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PulsarError, match=r"pulsar\.token_file: cannot read .*/none"):
        await TokenFile(str(tmp_path / "none"), PulsarMetrics()).data()


@pytest.mark.parametrize(
    "token", [b"", b"opaque", b"a.b.c", b"a.e30.c", b"a.eyJleHAiOiJ4In0.c", b"a.W10.c", b"..", b"a.8J+.c"]
)
def test_what_says_no_end_has_none(token: bytes) -> None:
    assert expiry_of(token) == 0


async def test_no_token_is_shown() -> None:
    assert "secret" not in repr(StaticToken("secret"))
