"""An archive's description beside its Parquet files: its source, and each batch's plan and manifest.

DIR/topic=T/date=D/batch=N/*.parquet are the records. DIR/_bridge/ holds `archive.json`, and for each batch a plan,
written before its files, and a manifest, written after them. A plan without a manifest is a batch that was interrupted:
it is written once more, the same offsets under the same name, over what there is of it.
"""

from dataclasses import dataclass
from typing import Any

from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.files import Files, ReadableFiles
from bridge.pipeline.plan import Bounds
from bridge.pipeline.ranges import Partition, TopicRange

STATE = "_bridge"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a batch holds."""

    batch: int
    ranges: tuple[TopicRange, ...]
    records: int
    bytes: int
    digest: str

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "batch": self.batch,
            "ranges": _ranges_json(self.ranges),
            "records": self.records,
            "bytes": self.bytes,
            "digest": self.digest,
        }

    @classmethod
    def of_json(cls, content: Any) -> "Manifest":
        """As it was kept."""
        return cls(
            content["batch"], _ranges_of(content["ranges"]), content["records"], content["bytes"], content["digest"]
        )


class ArchiveToRead:
    """The description of one archive."""

    def __init__(self, files: ReadableFiles) -> None:
        self.files = files

    def about(self) -> dict[str, Any] | None:
        """Its source; None for an empty directory. Usage when other files are there."""
        about: dict[str, Any] | None = self.files.read(f"{STATE}/archive.json")
        if about is None:
            if set(self.files.names()) - {STATE}:
                raise Usage(f"{self.files} holds files that are no archive of ours")
            return None
        if about.get("format") != FORMAT:
            raise Usage(f"{self.files} was written by another version of this program")
        return about

    def existing(self) -> dict[str, Any]:
        """Its source, which must be there."""
        about = self.about()
        if about is None:
            raise Usage(f"{self.files} is no archive")
        return about

    def manifests(self) -> list[Manifest]:
        """Every complete batch, in order; DataLoss if one between others has no manifest."""
        names = [name for name in self.files.names(STATE) if name.startswith("manifest-")]
        manifests = [Manifest.of_json(self.files.read(f"{STATE}/{name}")) for name in names]
        if [each.batch for each in manifests] != list(range(len(manifests))):
            raise DataLoss(f"{self.files}: manifests are missing, there are {', '.join(names)}")
        return manifests

    def interrupted(self, batch: int) -> list[TopicRange] | None:
        """The ranges of a batch that was planned and never finished."""
        plan = self.files.read(_name("plan", batch))
        return None if plan is None else list(_ranges_of(plan["ranges"]))

    def partitions(self, batch: int) -> dict[str, int]:
        """How many partitions each topic had when a batch was planned; those without records count too."""
        plan = self.files.read(_name("plan", batch))
        if plan is None:
            raise DataLoss(f"{self.files}: the plan of batch {batch} is missing")
        counts: dict[str, int] = plan["partitions"]
        return counts


class Archive(ArchiveToRead):
    """The same, of an archive that is written."""

    files: Files

    def __init__(self, files: Files) -> None:
        super().__init__(files)

    def begin(self, about: dict[str, Any]) -> None:
        """Make an empty directory an archive."""
        self.files.write(f"{STATE}/archive.json", {"format": FORMAT, **about})

    def plan(self, batch: int, ranges: list[TopicRange], partitions: dict[str, int]) -> None:
        """Write what a batch will hold, before any of its files, and how many partitions each topic has."""
        content = {"batch": batch, "ranges": _ranges_json(ranges), "partitions": partitions}
        self.files.write(_name("plan", batch), content)

    def finish(self, manifest: Manifest) -> None:
        """Write that a batch is complete."""
        self.files.write(_name("manifest", manifest.batch), manifest.as_json())


def ends(manifests: list[Manifest]) -> dict[Partition, int]:
    """Up to where each partition is archived."""
    return {each.key: each.until for manifest in manifests for each in manifest.ranges}


def bounds(manifests: list[Manifest]) -> dict[Partition, Bounds]:
    """The archived range of each partition; DataLoss if batches are not consecutive."""
    found: dict[Partition, Bounds] = {}
    for manifest in manifests:
        for each in manifest.ranges:
            held = found.get(each.key, Bounds(each.start, each.start))
            if held.latest != each.start:
                raise DataLoss(f"batch {manifest.batch} goes on at {each}, the one before it ended at {held.latest}")
            found[each.key] = Bounds(held.earliest, each.until)
    return found


def batch_name(batch: int) -> str:
    """As in paths, so that names sort as numbers do."""
    return f"{batch:08d}"


def _name(kind: str, batch: int) -> str:
    return f"{STATE}/{kind}-{batch_name(batch)}.json"


def _ranges_json(ranges: list[TopicRange] | tuple[TopicRange, ...]) -> list[list[Any]]:
    return [[each.topic, each.partition, each.start, each.until] for each in ranges]


def _ranges_of(content: list[list[Any]]) -> tuple[TopicRange, ...]:
    return tuple(TopicRange(*each) for each in content)
