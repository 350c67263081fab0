"""The results of `traffic`, as the blocks of its report."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bridge.pipeline.reports import plots
from bridge.pipeline.reports.pages import Block, Heading, Paragraph, Plot, Table

Facts = Mapping[str, Any]


def report(facts: Facts) -> list[Block]:
    """The whole report; without matplotlib it has no plots."""
    drawn = importlib.util.find_spec("matplotlib") is not None
    blocks: list[Block] = [
        Heading(f"Traffic of {facts['endpoint']}", 1),
        Paragraph(f"Measured {facts['measured']}. Sizes are those of keys, values and headers, uncompressed."),
        Heading("Partitions"),
        _volume(facts["partitions"]),
        Heading("Order and time"),
        Paragraph(
            "A record is late when one before it in its partition is younger. Gaps are offsets without a record."
        ),
        _order(facts["partitions"]),
    ]
    if drawn and facts["times"]:
        blocks += _rates(facts)
    for topic, keys in facts["keys"].items():
        blocks += _keys(topic, keys, drawn)
    if facts["lag"]:
        blocks += _lag(facts["lag"], drawn)
    return blocks


def _volume(partitions: Sequence[Facts]) -> Table:
    head = ["partition", "records", "bytes", "mean", "p50", "p90", "p99", "largest", "null keys", "tombstones"]
    return Table(head, [_volume_row(each) for each in partitions])


def _volume_row(each: Facts) -> list[str]:
    records = each["records"]
    mean = each["bytes"] // records if records else 0
    sizes = [f"{number:,}" for number in (mean, *each["sizes"].values(), each["largest"])]
    shares = [_share(each[name], records) for name in ("null_keys", "tombstones")]
    return [f"{each['topic']}/{each['partition']}", f"{records:,}", f"{each['bytes']:,}", *sizes, *shares]


def _order(partitions: Sequence[Facts]) -> Table:
    head = ["partition", "from", "to", "gaps", "first", "last", "late", "latest by"]
    return Table(
        head,
        [
            [
                f"{each['topic']}/{each['partition']}",
                f"{each['from']:,}",
                f"{each['to']:,}",
                f"{each['gaps']:,}",
                _moment(each["first"]),
                _moment(each["last"]),
                _share(each["late"], each["records"]),
                f"{each['latest_by'] / 1000:,.3f} s",
            ]
            for each in partitions
        ],
    )


def _rates(facts: Facts) -> list[Block]:
    seconds = facts["bucket_ms"] / 1000
    width = f"means over {seconds:,.0f} s"
    records = _by_topic(facts["times"], lambda row: row["records"] / seconds)
    megabytes = _by_topic(facts["times"], lambda row: row["bytes"] / seconds / 1e6)
    drawn = [
        Plot(name, title, plots.over_time(series, title, unit))
        for name, title, unit, series in (
            ("records", f"Records a second, {width}", "1/s", records),
            ("bytes", f"Megabytes a second, {width}", "MB/s", megabytes),
        )
    ]
    return [Heading("Rates"), *drawn]


def _by_topic(rows: Sequence[Facts], value: Callable[[Facts], float]) -> dict[str, list[tuple[datetime, float]]]:
    found: dict[str, list[tuple[datetime, float]]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append((datetime.fromtimestamp(row["start"] / 1000, UTC), value(row)))
    return found


def _keys(topic: str, keys: Facts, drawn: bool) -> list[Block]:
    top = keys["top"]
    together = sum(each["share"] for each in top)
    text = (
        f"About {keys['keys']:,} different keys; the {len(top)} most frequent ones have {together:.1%} of the records."
    )
    names = [str(each.get("key", f"no. {rank}")) for rank, each in enumerate(top, 1)]
    rows = [[name, f"{each['records']:,}", f"{each['share']:.2%}"] for name, each in zip(names, top, strict=True)]
    blocks: list[Block] = [Heading(f"Keys of {topic}"), Paragraph(text), Table(["key", "records", "share"], rows)]
    if drawn:
        shares = {f"{rank}": 100 * each["share"] for rank, each in enumerate(top, 1)}
        title = f"Share of the most frequent keys of {topic}"
        blocks.append(Plot(f"keys-{topic}", title, plots.bars(shares, title, "%")))
    return blocks


def _lag(lag: Sequence[Facts], drawn: bool) -> list[Block]:
    """The last run's lag by partition, and its trend over the runs in this directory."""
    last = max(row["measured"] for row in lag)
    now = [row for row in lag if row["measured"] == last]
    rows = [
        [
            row["group"],
            f"{row['topic']}/{row['partition']}",
            f"{row['committed']:,}",
            f"{row['end']:,}",
            f"{row['lag']:,}",
        ]
        for row in now
    ]
    blocks: list[Block] = [Heading("Lag of groups"), Table(["group", "partition", "committed", "end", "lag"], rows)]
    if drawn:
        title = "Records behind, by group"
        blocks.append(Plot("lag", title, plots.over_time(_lag_series(lag), title, "records")))
    return blocks


def _lag_series(lag: Sequence[Facts]) -> dict[str, list[tuple[datetime, float]]]:
    sums: dict[tuple[str, str], float] = {}
    for row in lag:
        key = row["group"], row["measured"]
        sums[key] = sums.get(key, 0) + row["lag"]
    found: dict[str, list[tuple[datetime, float]]] = {}
    for (group, measured), behind in sorted(sums.items()):
        found.setdefault(group, []).append((datetime.fromisoformat(measured), behind))
    return found


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole and part else f"{part:,}"


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a client may write any time at all
        return f"{milliseconds:,} ms"
