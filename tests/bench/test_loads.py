from pathlib import Path

from bench.loads import IN_FLIGHT, Load, Payloads


def test_a_load_is_whole_records() -> None:
    load = Load(1024, 4, 128 * 1024, 10)
    assert load.records == 9765
    assert load.bytes == 9765 * 1024
    assert load.name == "1 KB, 4 partitions, 128 KB batches"


def test_pulsars_client_may_have_as_many_batches_pending_as_kafkas_and_the_one_it_fills() -> None:
    pending = Load(1024, 1, 128 * 1024, 10).pulsar_producer()["pending"]
    assert pending == (IN_FLIGHT + 1) * 126


def test_payloads_are_lines_of_the_size_asked_for_and_the_same_in_every_run(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        directory = tmp_path / name
        directory.mkdir()
        texts.append(Payloads(directory).of(100).read_text(encoding="utf-8"))
    assert {len(line) for line in texts[0].split("\n")} == {100}
    assert texts[0] == texts[1]
