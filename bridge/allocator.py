"""How memory is given back: large buffers stay with the C library, and cycles are looked for among new objects only."""

import ctypes
import gc
import sys

# glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 64 << 20
"""Free bytes at the end of the heap that stay; a few seconds' buffers of a busy bridge."""
_PAD = 4 << 20
_LARGEST = 16 << 20
"""Buffers up to this size come from the heap; no batch is larger."""


def keep_freed_memory() -> None:
    """To free memory and get it again costs a page fault every 4 KB, which was a quarter of the processor time of
    128 KB batches; where there is no glibc nothing changes."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _PAD)):
            mallopt(option, value)


def pause_collection() -> None:
    """Look for no cycles while the process starts: what is made then is there to stay, and looking through it again and
    again took a tenth of the start."""
    gc.disable()


def freeze_startup_objects() -> None:
    """Never look again for cycles among the objects of now, which are those of a started process: 60,000 of them, which
    take 12 ms on an idle core, several times a second. No answer has to wait for that, so not even one look is
    taken: some 1,300 objects stay that could go.

    A large request makes 100,000 objects that all go with it. They should not be looked through three times meanwhile,
    each of which held the event loop for 50 ms: young ones are looked at often and few at a time, old ones seldom.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 50)
    gc.enable()
