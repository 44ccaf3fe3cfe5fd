"""What exactness rests on besides the state: saved with it, and compared when it is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_WORDS = {
    "torch": "torch",
    "threads": "CPU threads for each rank",
    "ranks": "ranks",
    "device": "device",
    "processor": "processor",
    "optimizers": "optimizers",
    "data": "data and its order",
    "seed": "seed",
    "mode": "reproducibility mode",
}


def capture(
    *,
    ranks: int,
    device: str,
    optimizers: Iterable[Any],
    data: str,
    seed: int,
    mode: str,
) -> dict[str, Any]:
    """Everything that another machine or another version of the code could have otherwise."""
    import torch

    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "ranks": ranks,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "optimizers": [_implementation(optimizer) for optimizer in optimizers],
        "data": data,
        "seed": seed,
        "mode": mode,
    }


def _implementation(optimizer: Any) -> str:
    kinds = [kind for kind in ("fused", "foreach") if optimizer.defaults.get(kind)]
    return f"{type(optimizer).__name__}{f' ({kinds[0]})' if kinds else ''}"


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In words, what is not as it was when the checkpoint was written."""
    return [
        f"{words}: was {_show(saved[key])}, now is {_show(now[key])}"
        for key, words in _WORDS.items()
        if key in saved and key in now and saved[key] != now[key]
    ]


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
