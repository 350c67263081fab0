"""The exceptions every layer shares; each says what the peer should be told."""


class BridgeError(Exception):
    """Anything the bridge raises on purpose."""


class SettingsError(BridgeError):
    """A setting is unknown, missing or wrong; the message names it and the remedy."""

    def __init__(self, message: str, at: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.at = at
        """Where in the tables of settings, if it is the fault of one value, or of one section's."""


class StartupError(BridgeError):
    """The bridge cannot start; the message says what to set or run."""


class KafkaError(BridgeError):
    """A request, topic or partition gets this Kafka error code (`bridge.kafka.error_codes.ErrorCode`)."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"Kafka error {int(code)}")
        self.code = int(code)
        self.message = message

    def bare(self) -> "KafkaError":
        """The same without its traceback and cause, to be kept: they hold what was at hand, the records of a request,
        until the next garbage collection."""
        return KafkaError(self.code, self.message)


class Unanswered(KafkaError):
    """An error that a client takes for final, though it is not: its connection is closed instead."""


class CorruptBatch(BridgeError):
    """A record batch breaks its own framing, checksum or compression: CORRUPT_MESSAGE (2)."""


class BatchTooLarge(CorruptBatch):
    """A record batch grows above what may be stored when it is decompressed: MESSAGE_TOO_LARGE (10)."""


class InvalidRecord(BridgeError):
    """A record batch is well framed but says what a client may not say: INVALID_RECORD (87)."""


class CorruptEntry(BridgeError):
    """An entry stored in Pulsar cannot be decoded."""
