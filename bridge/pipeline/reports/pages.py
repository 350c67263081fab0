"""One text as Markdown and as HTML: headings, paragraphs, tables and plots."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:right}"
    "th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """Of a level from 1 on."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A head and rows of as many cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Plot:
    """An SVG, in a file of this name beside the Markdown."""

    name: str
    title: str
    svg: str


Block = Heading | Paragraph | Table | Plot


def write(directory: Path, name: str, blocks: Sequence[Block]) -> list[Path]:
    """Write NAME.md with its plots, and NAME.html, which holds everything."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"{name}.md": markdown(blocks), f"{name}.html": page(blocks)}
    files |= {f"{block.name}.svg": block.svg for block in blocks if isinstance(block, Plot)}
    for file, text in files.items():
        (directory / file).write_text(text, encoding="utf-8")
    return [directory / file for file in files]


def markdown(blocks: Sequence[Block]) -> str:
    """As Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_escaped(text)}"
        case Paragraph(text):
            return _escaped(text)
        case Plot(name, title):
            return f"![{_escaped(title)}]({name}.svg)"
        case Table(head, rows):
            lines = [head, ["---"] + ["---:"] * (len(head) - 1), *([_escaped(cell) for cell in row] for row in rows)]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """What a key or a topic may hold must not become markup."""
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")


def page(blocks: Sequence[Block]) -> str:
    """As one HTML file that needs nothing else."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    body = "\n".join(_html(block) for block in blocks)
    return f"{head}<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case Plot(svg=svg):
            return f"<figure>{svg[svg.index('<svg') :]}</figure>"
        case Table(head, rows):
            top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
            lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
            return f"<table><tr>{top}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
