from pathlib import Path

from bench.results import Part, Table, markdown, plain, read

TABLE = Table("Speed", ["load", "bridge MB/s", "ratio"], [["1 KB", 12.5, 0.9], ["100 B", 7.0, None]])


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    part = Part(
        "fetch", "Fetch", "as it is", [TABLE], {"resident MB": [[0.0, 70.5]]}, {"20/s": {"bridge": [0.5]}}, "2 cores"
    )
    part.write(tmp_path)
    assert read(tmp_path / "fetch.json") == part


def test_a_table_is_shown_in_columns() -> None:
    assert plain(TABLE) == "Speed\nload   bridge MB/s  ratio\n1 KB          12.5    0.9\n100 B          7.0      –"


def test_a_table_stands_in_documents() -> None:
    assert markdown(TABLE.only(["load", "ratio"])) == (
        "**Speed**\n\n| load | ratio |\n|---|---:|\n| 1 KB | 0.9 |\n| 100 B | – |"
    )
