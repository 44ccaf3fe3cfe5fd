"""How others save the same tensors: torch.save, safetensors, torch.distributed.checkpoint.

All are asked for the same promise, that the bytes are on the disk when they say so; none of them
hashes. Tensors that share memory are given to them once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, cast
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict_saver as dcp
from safetensors.torch import save_file
from torch._C._distributed_c10d import TCPStore
from torch.distributed.checkpoint import staging
from torch.distributed.checkpoint.filesystem import FileSystemWriter

Tensors = dict[str, torch.Tensor]


class Saver(Protocol):
    """Saves a state, at once or behind training."""

    name: str

    def save(self) -> float:
        """Returns when training may go on, with the seconds until then."""
        ...

    def busy(self) -> bool: ...

    def wait(self) -> None:
        """Return once what was saved is on the disk."""
        ...

    def clear(self) -> None: ...

    def close(self) -> None: ...


class _Peer:
    """What all have in common: a place of their own, and by default nothing in the background."""

    name = ""

    def __init__(self, tensors: Tensors, place: Path) -> None:
        self.tensors = tensors
        self.place = place

    def save(self) -> float:
        begun = time.perf_counter()
        self.begin()
        return time.perf_counter() - begun

    def begin(self) -> None:
        raise NotImplementedError

    def busy(self) -> bool:
        return False

    def wait(self) -> None:
        return None

    def clear(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.with_suffix(".file").unlink(missing_ok=True)

    def close(self) -> None:
        self.clear()


class TorchSave(_Peer):
    name = "torch.save"

    def begin(self) -> None:
        with self.place.with_suffix(".file").open("wb") as file:
            torch.save(self.tensors, file)
            file.flush()
            os.fsync(file.fileno())


class Safetensors(_Peer):
    name = "safetensors"

    def begin(self) -> None:
        path = self.place.with_suffix(".file")
        save_file(self.tensors, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())


class Dcp(_Peer):
    name = "DCP save"

    def begin(self) -> None:
        dcp.save(self.tensors, storage_writer=_writer(self.place))


class _Async(_Peer):
    kind = dcp.AsyncCheckpointerType.THREAD
    shared_memory = False

    def __init__(self, tensors: Tensors, place: Path) -> None:
        super().__init__(tensors, place)
        # Kept for all saves: its memory is touched by the first one alone.
        self._stager = staging.DefaultStager(
            staging.StagingOptions(
                use_pinned_memory=False,
                use_shared_memory=self.shared_memory,
                use_async_staging=False,
                use_non_blocking_copy=False,
            )
        )
        self._future: Future[Any] | None = None

    def begin(self) -> None:
        self._future = cast(
            "Future[Any]",
            dcp.async_save(
                self.tensors,
                storage_writer=_writer(self.place),
                async_checkpointer_type=self.kind,
                async_stager=self._stager,
            ),
        )

    def busy(self) -> bool:
        return self._future is not None and not self._future.done()

    def wait(self) -> None:
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        self._stager.close()
        super().close()


class DcpThread(_Async):
    name = "DCP async, thread"


class DcpProcess(_Async):
    name = "DCP async, process"
    kind = dcp.AsyncCheckpointerType.PROCESS
    shared_memory = True


ALL: tuple[type[_Peer], ...] = (TorchSave, Safetensors, Dcp, DcpThread, DcpProcess)


def _writer(place: Path) -> FileSystemWriter:
    return FileSystemWriter(place, thread_count=2, sync_files=True, overwrite=True)


@contextlib.contextmanager
def gang_of_one() -> Iterator[None]:
    """torch.distributed for this process alone, which DCP's ways to save behind training need."""
    place = {"MASTER_ADDR": "127.0.0.1", "DCP_USE_PREFIX_STORE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with patch.dict(os.environ, place), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = TCPStore("127.0.0.1", 0, 1, is_master=True)
        os.environ["MASTER_PORT"] = str(store.port)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()
