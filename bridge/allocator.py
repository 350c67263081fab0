"""Has the C library keep the memory of large buffers: to give it back and get it anew costs a page fault every 4 KB."""

import ctypes
import sys

# glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 64 << 20
"""Free bytes at the end of the heap that stay; a few seconds' buffers of a busy bridge."""
_PAD = 4 << 20
_LARGEST = 16 << 20
"""Buffers up to this size come from the heap; no batch is larger."""


def keep_freed_memory() -> None:
    """A quarter of the processor time of 128 KB batches was page faults; where there is no glibc nothing changes."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _PAD)):
            mallopt(option, value)
