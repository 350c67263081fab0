"""When certificates end."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from bridge.net.certificates import ends_at, lists_end_at
from tests.support.certificates import Authority


def test_the_first_end_of_a_chain_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    soon, late = (authority.sign(name, lasts=timedelta(days=days)) for name, days in (("soon", 3), ("late", 30)))
    chain = Path(late.certificate).read_bytes() + Path(soon.certificate).read_bytes()
    assert abs(ends_at(chain) - time.time() - timedelta(days=3).total_seconds()) < timedelta(hours=1).total_seconds()


def test_what_has_no_certificate_has_no_end() -> None:
    with pytest.raises(ValueError, match=r"(?i)pem"):
        ends_at(b"nothing")


def test_the_first_end_of_several_lists_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    lists = b"".join(Path(authority.withdraw(lasts=timedelta(days=days))).read_bytes() for days in (30, 3, 9))
    assert abs(lists_end_at(lists) - time.time() - timedelta(days=3).total_seconds()) < 3600
    with pytest.raises(ValueError, match="no certificate revocation list"):
        lists_end_at(Path(authority.file).read_bytes())
