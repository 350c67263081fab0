"""All targets."""

from __future__ import annotations

from typing import Final

from tests.fuzz.decoders import codecs, kafka_wire, pulsar, pulsar_client, security, stored, texts
from tests.fuzz.decoders.target import Target

TARGETS: Final[tuple[Target, ...]] = (
    *kafka_wire.TARGETS,
    *codecs.TARGETS,
    *pulsar.TARGETS,
    *pulsar_client.TARGETS,
    *stored.TARGETS,
    *security.TARGETS,
    *texts.TARGETS,
)
BY_NAME: Final = {target.name: target for target in TARGETS}
