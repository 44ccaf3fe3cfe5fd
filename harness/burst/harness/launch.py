"""Starts what an allocation runs on this node: `BURST_LAUNCH=…/spec.json python -m
burst.harness.launch`.

It prepares the environment that exactness rests on and becomes the process that does the work: the
rank itself where there is one, else torch's elastic launcher. It imports next to nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Also in burst.core.launch, whose import this process has no use for.
_LAUNCH_VARIABLE = "BURST_LAUNCH"


def environment(spec: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """The ranks' environment: what the node and the experiment set, and what burst adds."""
    folder, threads = Path(spec["folder"]), str(spec.get("threads", 1))
    added = {
        "BURST_HPARAMS": json.dumps(spec["hparams"]),
        "BURST_EXPERIMENT": spec["experiment"],
        "BURST_TRIAL": spec["trial"],
        "BURST_TRIAL_SEED": str(spec["seed"]),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
        # `python` in a command is the one that burst runs under, as it is for trial classes.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH", ""))),
        # A rendezvous store that is shared with the ranks keeps a newcomer waiting for ever.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(folder / "code"), environ.get("PYTHONPATH", "")))
        ),
    }
    defaults = {
        # Decides the order of sets of strings, which a resumed trial has to find the same.
        "PYTHONHASHSEED": str(spec["seed"] % 2**32),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if spec.get("nodes", 1) == 1 and sys.platform == "linux":
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    if spec.get("ranks_per_node", 1) * spec.get("nodes", 1) == 1:
        added |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        # So that code which sets up torch.distributed, as sharding a model does, finds a gang of
        # one; port 0 is whichever is free.
        defaults |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    return {**defaults, **environ, **added}


def main() -> None:
    path = os.environ.get(_LAUNCH_VARIABLE)
    if not path:
        sys.exit(f"{_LAUNCH_VARIABLE} is not set: this is what an agent starts, not a command")
    spec = json.loads(Path(path).read_bytes())
    ranks = spec.get("ranks_per_node", 1) * spec.get("nodes", 1)
    module = "burst.harness.rank" if ranks == 1 else "burst.harness.gang"
    words = [sys.executable, "-m", module]
    os.execve(sys.executable, words, environment(spec, os.environ))


if __name__ == "__main__":
    main()
