"""Puts the double of the `pulumi` command where a real one would be found.

The double is no Pulumi: there is none on a machine without network. What is Pulumi's own runs as
it is: the SDK, the Automation API, the typed resources. The double stands for the command, the
engine and the AWS provider, and behaves as they do where burst can tell the difference: the format
of state and of events, the order of what is done, what is written down before and after each step,
what a failure or a kill leaves behind, locks, and the words of errors.

Where it differs from the real ones:

- One thing is done at a time.
- Inputs are not checked against the provider's schema: botocore and the cloud check them.
- It knows the types in `providers`, and of some not every property; what it does not know it
  refuses, by name, and never passes over.
- No targets, plans, policies, hooks, transforms, package parameters; no secrets provider but the
  passphrase, whose key is cheaper than the real one.
- With `adopt`, it looks for what interrupted creations made. The real engine leaves that to
  people.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class Double:
    """A command that is there."""

    root: Path
    """For `PulumiCommand(root=…)`: the command is `bin/pulumi` below it."""
    backend: str
    """URL of a folder for stacks."""
    environ: Mapping[str, str]
    """What whoever uses it needs in its environment: the cloud, the stacks, the passphrase, and a
    PATH on which the command is the first `pulumi`."""


@contextmanager
def engine(folder: Path, environ: Mapping[str, str], *, adopt: bool = False) -> Iterator[Double]:
    """The double of Pulumi's command and engine.

    Args:
        folder: made if it is not there; the command and the stacks are put in it.
        environ: how clients reach the cloud (`burst.runner.rehearsal.servers.Servers.environ`).
        adopt: whether an update looks for what interrupted creations made, and takes it over. The
            real engine does not: it warns, and makes it again.
    """
    command, stacks = folder / "bin" / "pulumi", folder / "stacks"
    for place in (command.parent, stacks):
        place.mkdir(parents=True, exist_ok=True)
    program = f"{shlex.quote(sys.executable)} -P -m tests.infra.double.main"
    path = f"PYTHONPATH={shlex.quote(str(_REPOSITORY))}:$PYTHONPATH"
    command.write_text(f'#!/bin/sh\n{path} exec {program} "$@"\n')
    command.chmod(0o755)
    given = {
        **environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PULUMI_HOME": str(folder),
        "PULUMI_BACKEND_URL": f"file://{stacks}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if adopt:
        given["PULUMI_DOUBLE_ADOPTS"] = "1"
    yield Double(folder, given["PULUMI_BACKEND_URL"], given)
