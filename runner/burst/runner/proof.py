"""Where a trial may go before one of its checkpoints is proved to restore.

In a pool whose nodes may be taken away a trial lives by its checkpoints, so one of them is
restored once in a process to throw away and compared with what was saved
(`burst.runner.agent.attempts.rehearsal`).

- A trial without a checkpoint may start anywhere: it has nothing to lose yet. Where nodes are
  lost, or where it may come there, it saves its first one soon (`LaunchSpec.early_checkpoint`).
- A trial that has trained where nodes stay does not move to where they are lost before the proof.
- A trial that is where nodes are lost goes on there, proved or not: waiting would not help it. So
  does one that has nowhere else to go. Both are shown as not proved.
"""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.config.cluster import PoolConfig, loses_nodes
from burst.core.model import Trial


def losing_pools(pools: Mapping[str, PoolConfig]) -> dict[str, bool]:
    """For each pool of the cluster, whether its nodes may be taken away."""
    return {name: loses_nodes(config) for name, config in pools.items()}


def needs_proof(trial: Trial, losing: Mapping[str, bool]) -> bool:
    """Whether a checkpoint of the trial is yet to be proved: it is, or may come, where nodes are
    lost, and none was."""
    return not trial.proved and any(losing.get(name) for name in (*trial.pools, trial.pool))


def admitted(trial: Trial, losing: Mapping[str, bool]) -> tuple[tuple[str, ...], str]:
    """The pools that a trial which waits may start in, best first, and in words why not in the
    others; empty where it may use all of its pools. Pure."""
    closed = [name for name in trial.pools if losing.get(name)]
    stays = any(name in losing and not losing[name] for name in trial.pools)
    at_home = not trial.checkpoint or losing.get(trial.pool, False)
    if trial.proved or at_home or not closed or not stays:
        return trial.pools, ""
    names = f"pool {closed[0]} is" if len(closed) == 1 else f"pools {', '.join(closed)} are"
    if trial.unprovable:
        why = f": checkpoint {trial.checkpoint} did not come back as it was saved"
    else:
        why = " until a checkpoint of it is proved to restore, which is done where it trains"
    return tuple(name for name in trial.pools if name not in closed), f"{names} closed to it{why}"
