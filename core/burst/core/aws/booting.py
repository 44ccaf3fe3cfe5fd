"""The user data of a launch template: everything that a machine of an AWS pool boots with.

It is shell, in the folder `boot` beside this file, and plain text: what a machine was started with
can be read in the console of EC2. The head of each script says what it is for; the comments below
it stay here, because EC2 takes so little.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files

MAX_LIFE_MARGIN_S = 3600
"""The agent drains a machine at its pool's `max_life`; so much later it ends in any case."""
LONGEST = 16384
"""Bytes of user data that EC2 takes, before base64."""
_INSTALLED = (
    "deadman.sh",
    "disks.sh",
    "fabric.sh",
    "bundle.sh",
    "node.sh",
    "docker-credential-burst",
    "burst-deadman.service",
    "burst-node.service",
)
"""In BURST_ETC, which is /etc/burst on a machine."""
_END = "BURST_END"


def node_script(
    environ: Mapping[str, str],
    *,
    max_life: float,
    bundle: str = "",
    python: str = "python",
    efa: int = 0,
) -> str:
    """The whole user data of a pool's machines.

    Args:
        environ: what a node has to know to find the rest (`templates.node_environ`).
        max_life: seconds that the machines may live (`AwsPool.max_life`).
        bundle: `s3://BUCKET/cluster/node-DIGEST.zip`, burst and what it needs; empty where the
            image's own Python has them.
        python: the image's Python (`Aws.python`).
        efa: Elastic Fabric Adapters that the template gives a machine.
    """
    told = {
        **environ,
        "BURST_BUNDLE": bundle,
        "BURST_EFA": str(efa) if efa else "",
        "BURST_MAX_LIFE": str(int(max_life) + MAX_LIFE_MARGIN_S),
        "BURST_PYTHON": python,
    }
    lines = (f"{name}={shlex.quote(value)}\n" for name, value in sorted(told.items()) if value)
    texts = {"node.env": "".join(lines), **{name: _sent(name) for name in _INSTALLED}}
    first = boot_file("first.sh").partition("\n")[2]
    return f"""#!/bin/bash
# What a machine of a pool of burst boots with: files, and what starts burst from them.
set -eu
etc="${{BURST_ETC:-/etc/burst}}"
(
umask 077
mkdir -p "$etc"
{"".join(_written(name, text) for name, text in texts.items())})
{first}"""


def boot_file(name: str) -> str:
    """The text of a file of the folder `boot`."""
    return files("burst.core.aws").joinpath("boot", name).read_text()


def _sent(name: str) -> str:
    """A file of the folder with the comments of its head alone."""
    lines = boot_file(name).splitlines(keepends=True)
    head = next(at for at, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[:head] + [line for line in lines[head:] if line.lstrip()[:1] != "#"])


def _written(name: str, text: str) -> str:
    return f"""cat > "$etc/{name}" <<'{_END}'\n{text}{_END}\n"""
