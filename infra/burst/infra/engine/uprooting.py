"""Whether a change would take away what runs: pure, over the changes and what was seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from burst.core.errors import Refused
from burst.core.units import counted
from burst.infra.engine.changes import Changes, Op

_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_GROUND = (
    "aws:ec2/vpc:Vpc",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/securityGroup:SecurityGroup",
)
"""What machines stand on: EC2 removes none of it while one does."""
_GOING = (Op.DELETE, Op.REPLACE)


def pools_going(changes: Changes, staying: Collection[str]) -> list[str]:
    """Pools whose machines nothing would answer for any more: taken out, or renamed.

    Args:
        staying: names of the pools of the cluster file.
    """
    named = (
        row.name.split("/")  # burst/CLUSTER/POOL, or with the instance type behind it
        for row in changes.doing
        if row.type == _TEMPLATE and row.op is Op.DELETE
    )
    found = {parts[2] for parts in named if len(parts) > 2}
    return sorted(found - set(staying))


def ground_going(changes: Changes) -> list[str]:
    """Parts of the network that would be removed or made anew, in words."""
    rows = (row for row in changes.doing if row.type in _GROUND and row.op in _GOING)
    return [f"{row.kind} {row.name}" for row in rows]


def uproots(
    changes: Changes,
    staying: Collection[str],
    machines: Mapping[str, Sequence[str]],
    trials: Mapping[str, Sequence[str]],
) -> Refused | None:
    """Why it must not be done now; None where nothing stands on what goes.

    Args:
        staying: names of the pools of the cluster file.
        machines: ids by pool, of those that have not ended; under "" those of no known pool.
        trials: ids by pool, of those that train.
    """
    going, ground = pools_going(changes, staying), ground_going(changes)
    pools = sorted({*machines, *trials}) if ground else going
    busy = [pool for pool in pools if machines.get(pool) or trials.get(pool)]
    if not busy:
        return None
    why = "\n".join(_of_pool(pool, machines.get(pool, ()), trials.get(pool, ())) for pool in busy)
    if ground:
        what = f"this would remove the network under what runs ({', '.join(ground)})"
    else:
        what = f"this would take {' and '.join(f'pool {pool}' for pool in busy)} away from what "
        what += "runs there"
    return Refused(
        f"{what}; nothing was changed",
        why=why,
        mend=f"undo that change of burst.yaml; or first {_empty(trials, busy)}wait until "
        "`burst node list` shows no machine there, and type `burst up` again; or `burst down "
        "--keep-data`, which pauses with a checkpoint what trains, then `burst up` and "
        "`burst resume`",
    )


def _of_pool(pool: str, machines: Sequence[str], trials: Sequence[str]) -> str:
    said = [f"{counted(len(machines), 'machine')} ({', '.join(machines)})"] if machines else []
    said += [f"{counted(len(trials), 'trial')} ({', '.join(trials)})"] if trials else []
    return f"{f'pool {pool}' if pool else 'no known pool'} has {' and '.join(said)}"


def _empty(trials: Mapping[str, Sequence[str]], busy: Sequence[str]) -> str:
    train = [id for pool in busy for id in trials.get(pool, ())]
    if not train:
        return ""
    return f"`burst pause` what trains, or `burst move` it to another pool ({', '.join(train)}), "
