"""Tunes memory: the C library keeps large freed buffers, and the garbage collector looks at new objects only."""

import ctypes
import gc
import mmap
import sys

# glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 64 << 20
"""Free bytes kept at the end of the heap: the buffers of a few seconds of a busy bridge."""
_PAD = 4 << 20
_LARGEST = 16 << 20
"""Buffers up to this size come from the heap; no batch is larger."""


def keep_freed_memory() -> None:
    """Returning memory to the system and getting it again costs a page fault every 4 KB. That was a quarter of the
    processor time of 128 KB batches. Without glibc this does nothing."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _PAD)):
            mallopt(option, value)


def pause_collection() -> None:
    """Disable the garbage collector during the start: what is made then stays, and collecting took a tenth of the
    start."""
    gc.disable()


def freeze_startup_objects() -> None:
    """Exclude the objects of a started process from garbage collection: a collection of these 60,000 took 12 ms on an
    idle core, several times a second. They are not collected before that either: some 1,300 objects stay that could go.

    A large request makes 100,000 objects that all go with it. With Python's thresholds they were examined three times
    meanwhile, each of which held the event loop for 50 ms. So young objects are examined often and few at a time, old
    ones seldom: a microsecond each. What connections leave is no garbage that would have to be found.
    """
    gc.freeze()
    gc.set_threshold(1000, 5, 500)
    gc.enable()


def mapped(size: int) -> mmap.mmap:
    """So many bytes, of which only those that are written take memory; MemoryError.

    Large new buffers of Python's come whole, with the GIL held: 20 MB take 8 ms, for which the event loop waits.
    """
    try:
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no {size} bytes to be had: {error}") from None
