"""A little of every tensor, kept to see later whether somebody has changed it meanwhile.

Training stands still while it is taken, and the caches are cold then: what counts is how few
steps of Python a tensor costs. So the kernel gathers all of them in one call, from a list of
addresses into a file in memory.
"""

from __future__ import annotations

import array
import ctypes
import os
import weakref
from collections.abc import Iterable

import torch

SAMPLE_BYTES = 2048
"""Of a tensor, from its middle."""
_MOST_RANGES = 1024  # that one call takes (IOV_MAX)
_pwritev = ctypes.CDLL(None, use_errno=True).pwritev
_pwritev.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_long)
_pwritev.restype = ctypes.c_ssize_t


class Samples:
    """Samples of live tensors as they are now. What does not lie in memory as plain bytes on the
    CPU is left out.

    The memory must stay until `changed` has been asked for the last time.
    """

    def __init__(self, tensors: Iterable[tuple[int, torch.Tensor]]) -> None:
        """
        Args:
            tensors: each with the number that `changed` calls it by.
        """
        self._numbers: list[int] = []
        self._ranges = array.array("Q")
        """Address and length, in turns."""
        add, count = self._ranges.append, self._numbers.append
        for number, tensor in tensors:
            if is_plain(tensor):
                size = tensor.nbytes
                sampled = size if size < SAMPLE_BYTES else SAMPLE_BYTES
                count(number)
                add(tensor.data_ptr() + (size - sampled) // 2)
                add(sampled)
        self._file = os.memfd_create("burst-samples")
        weakref.finalize(self, os.close, self._file)
        self._bytes = self._gather(0)

    def changed(self) -> int | None:
        """The number of a tensor that is not as it was; None if there is none."""
        self._gather(self._bytes)
        before = os.pread(self._file, self._bytes, 0)
        now = os.pread(self._file, self._bytes, self._bytes)
        if before == now:
            return None
        place = 0
        for number, size in zip(self._numbers, self._ranges[1::2], strict=True):
            if before[place : place + size] != now[place : place + size]:
                return number
            place += size
        raise AssertionError("what differs lies in one of the samples")

    def _gather(self, place: int) -> int:
        """Write all samples to the file, from `place` on; returns how many bytes they are.

        Raises:
            OSError: if there is no memory for them.
        """
        begin = place
        for first in range(0, len(self._ranges), 2 * _MOST_RANGES):
            some = self._ranges[first : first + 2 * _MOST_RANGES]
            written = _pwritev(self._file, some.buffer_info()[0], len(some) // 2, place)
            if written != sum(some[1::2]):
                number = ctypes.get_errno() if written < 0 else 0
                raise OSError(number, f"could not sample tensors: {os.strerror(number)}")
            place += written
        return place - begin


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its bytes lie in memory as they will in a file."""
    return (
        tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()
    )
