"""A report says the same as Markdown and as HTML, and what it shows is never markup."""

from __future__ import annotations

import re
from pathlib import Path

from bridge.pipeline.reports.pages import Block, Heading, Paragraph, Plot, Table, markdown, page, write

NASTY = "<b>|*x*\n"
SVG = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"></svg>'
BLOCKS: list[Block] = [
    Heading("Title", 1),
    Paragraph(NASTY),
    Table(["name", "number"], [[NASTY, "1"], ["b", "2"]]),
    Plot("plot", "A plot", SVG),
]


def test_markdown_has_every_block() -> None:
    assert markdown(BLOCKS).split("\n\n") == [
        "# Title",
        "\\<b\\>\\|\\*x\\* ",
        "| name | number |\n| --- | ---: |\n| \\<b\\>\\|\\*x\\*  | 1 |\n| b | 2 |",
        "![A plot](plot.svg)\n",
    ]


def test_html_holds_its_plots_and_no_foreign_markup() -> None:
    text = page(BLOCKS)
    assert re.findall(r"<(h1|td|b)\b", text) == ["h1"] + ["td"] * 4
    assert "<svg" in text and "<?xml" not in text


def test_files_are_written_side_by_side(tmp_path: Path) -> None:
    written = write(tmp_path / "new", "name", BLOCKS)
    assert [path.name for path in written] == ["name.md", "name.html", "plot.svg"]
    assert (tmp_path / "new" / "plot.svg").read_text() == SVG
