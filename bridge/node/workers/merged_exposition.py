"""Makes one exposition of several processes': each family once, each sample with a label that says whose it is."""

from collections.abc import Iterable, Iterator, Mapping

_END = b"# EOF"


class _Family:
    __slots__ = ("head", "samples")

    def __init__(self) -> None:
        self.head: dict[bytes, bytes] = {}  # HELP, TYPE, UNIT: those of the first process that has them
        self.samples: list[bytes] = []


def merge(expositions: Mapping[str, bytes], own: bytes = b"") -> bytes:
    """`expositions` by worker, in Prometheus's text format or in OpenMetrics'; `own` goes in without a label."""
    families: dict[bytes, _Family] = {}
    open_metrics = False
    parts: Iterable[tuple[str | None, bytes]] = ((None, own), *expositions.items())
    for worker, text in parts:
        label = b"" if worker is None else b'worker="' + worker.encode() + b'"'
        family = _Family()  # samples before any header: none that Prometheus writes
        for line in text.split(b"\n"):
            if line.startswith(b"# "):
                open_metrics = open_metrics or line == _END
                family = _header(families, line, family)
            elif line:
                family.samples.append(_labelled(line, label) if label else line)
    lines = list(_lines(families))
    if open_metrics:
        lines.append(_END)
    lines.append(b"")
    return b"\n".join(lines)


def _header(families: dict[bytes, _Family], line: bytes, current: _Family) -> _Family:
    _, keyword, *rest = line.split(b" ", 3)
    if not rest:
        return current
    family = families.setdefault(rest[0], _Family())
    family.head.setdefault(keyword, line)
    return family


def _labelled(line: bytes, label: bytes) -> bytes:
    """The sample with the label first; a metric's name holds neither a brace nor a space."""
    name, space, value = line.partition(b" ")
    brace = name.find(b"{")
    if brace < 0:
        return b"".join((name, b"{", label, b"}", space, value))
    rest = line[brace + 1 :]
    return b"".join((line[: brace + 1], label, b"" if rest.startswith(b"}") else b",", rest))


def _lines(families: Mapping[bytes, _Family]) -> Iterator[bytes]:
    for family in families.values():
        if family.samples:
            yield from family.head.values()
            yield from family.samples
