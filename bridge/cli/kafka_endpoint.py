"""A Kafka that a command takes over from, or brings something to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.errors import SettingsError, StartupError

if TYPE_CHECKING:
    from bridge.pipeline.endpoint import KafkaEndpoint


@contextmanager
def kafka_errors(opened: "Callable[[], KafkaEndpoint]") -> "Iterator[KafkaEndpoint]":
    """A Kafka's endpoint, closed at the end; what goes wrong there is one of our errors."""
    from bridge.pipeline.errors import PipelineError, Usage

    try:
        with opened() as endpoint:
            yield endpoint
    except Usage as error:
        raise SettingsError(str(error)) from None
    except PipelineError as error:
        raise StartupError(str(error)) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kafka":
            raise
        raise StartupError("this needs kafka-python, which the extra `standalone` of the package brings") from None
