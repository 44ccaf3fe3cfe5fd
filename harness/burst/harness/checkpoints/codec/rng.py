"""Every random generator of a rank, as a tree that a checkpoint can hold.

Captured: Python's `random`, NumPy's global generator (whatever its bit generator is), torch's CPU
generator, every CUDA device's once CUDA is in use, and MPS where it is. CUDA is never initialised
just to look: a generator that nothing has used yet has no state worth a context on the device.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from burst.core.errors import BurstError
from burst.harness.checkpoints.port import Tree

_REQUIRED = ("python", "numpy", "torch")


def capture() -> Tree:
    """The state of every generator, as a plain tree; `restore` takes it back exactly."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state(),
    }
    if _cuda_in_use():
        devices = range(torch.cuda.device_count())
        state["cuda"] = {
            "current": torch.cuda.current_device(),
            "devices": [torch.cuda.get_rng_state(device) for device in devices],
        }
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore(tree: Tree) -> list[str]:
    """Set every generator to what `capture` saw. Do it last, when all else is built: building a
    model or a loader draws numbers.

    Returns what could not be matched because this machine's devices are others, in words: empty
    where the restore is exact.

    Raises:
        BurstError: if a state is missing or a generator refuses it; the generators are then in no
            particular state, so training must not go on.
    """
    missing = [name for name in _REQUIRED if not isinstance(tree, dict) or name not in tree]
    if missing:
        raise BurstError(
            f"the checkpoint holds no random state of {', '.join(missing)}",
            why="continuing with fresh random numbers would silently be another run",
            mend="start from an older checkpoint, or start the trial anew",
        )
    _restore_one("python", lambda: random.setstate(tree["python"]))
    _restore_one("numpy", lambda: _restore_numpy(tree["numpy"]))
    _restore_one("torch", lambda: torch.set_rng_state(tree["torch"]))
    notes = _restore_cuda(tree.get("cuda"))
    if "mps" in tree and torch.backends.mps.is_available():
        _restore_one("mps", lambda: torch.mps.set_rng_state(tree["mps"]))
    elif ("mps" in tree) != torch.backends.mps.is_available():
        notes.append("the random state of the MPS device is not the checkpoint's")
    return notes


def _restore_one(name: str, act: Any) -> None:
    try:
        act()
    except (TypeError, ValueError, RuntimeError, KeyError, IndexError) as error:
        raise BurstError(
            f"the checkpoint's random state of {name} does not fit this {name}",
            why=f"{type(error).__name__}: {error}",
            mend="resume with the versions that wrote it; `burst checkpoint show` lists them",
        ) from error


def _restore_numpy(state: Any) -> None:
    name = state["bit_generator"]
    if np.random.get_state(legacy=False)["bit_generator"] != name:
        kind = getattr(np.random, name, None)
        if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
            raise ValueError(f"NumPy {np.__version__} has no bit generator {name!r}")
        np.random.set_bit_generator(kind())  # type: ignore[attr-defined]
    np.random.set_state(state)


def _restore_cuda(saved: Any) -> list[str]:
    if saved is None:
        note = "the checkpoint holds no random state of a CUDA device"
        return [note] if _cuda_in_use() else []
    if not torch.cuda.is_available():
        return ["the checkpoint holds the random state of a CUDA device, and none is here"]
    states = saved["devices"]
    if len(states) == torch.cuda.device_count():
        for device, state in enumerate(states):
            _set_cuda(state, device)
        return []
    _set_cuda(states[saved["current"]], torch.cuda.current_device())
    return [
        f"the checkpoint was written beside {len(states)} CUDA devices and "
        f"{torch.cuda.device_count()} are here: only this rank's own generator was restored"
    ]


def _set_cuda(state: torch.Tensor, device: int) -> None:
    _restore_one("cuda", lambda: torch.cuda.set_rng_state(state, device))


def _cuda_in_use() -> bool:
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())
