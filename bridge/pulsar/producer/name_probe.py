"""Asks a broker whether a producer's name is in use, by opening it and letting go of it at once."""

from typing import Final

from bridge.pulsar import commands
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import AccessMode, PulsarError

_IN_USE: Final = pb.ProducerBusy


async def is_name_free(topic: str, name: str, context: ClientContext) -> bool:
    """Whether no producer has this name on the topic, which must exist.

    True at once: no connection holds it. False at once: the holder's connection is there and has answered the broker's
    sign-of-life ping. An answer that takes long: the broker waits for the holder, which is frozen or cut off. It throws
    the holder's connection out after `connectionLivenessCheckTimeoutMillis`, and the answer is True then. Raises
    PulsarError where the broker cannot tell.
    """
    connection = await context.pool.get(await context.lookup.find(topic))
    producer_id = next(context.ids)
    try:
        await connection.request(
            lambda request_id: commands.producer(
                request_id,
                producer_id,
                topic,
                name=name,
                user_provided_name=True,
                epoch=0,
                properties={},
                access_mode=AccessMode.SHARED,
                topic_epoch=None,
            )
        )
    except PulsarError as error:
        if error.code == _IN_USE and error.refusal is None:
            return False
        raise
    finally:
        # also where nothing was answered: the name may have been granted, and must not stay so
        if not connection.closed:
            connection.notify(lambda request_id: commands.close_producer(request_id, producer_id))
    return True
