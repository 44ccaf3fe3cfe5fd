"""Takes a launcher of processes off a trial's command: `torchrun --nproc_per_node=2 train.py`.

burst starts one process a slot itself, on every node of the trial. With a launcher in front, each
of them would start a gang of its own. What the launcher would have told its processes besides is
kept; what says how they meet is not, since burst decides that.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from burst.core.errors import UsageError

_TORCH = ("torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate.commands.launch",)
_KEPT = ("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_", "MEGATRON_LM_", "FP8_")
"""What accelerate's launcher tells a script of how to train, rather than of how to meet."""
_SCRIPT = {"training_script", "training_script_args", "module", "no_python"}
_IS_SO = {"standalone", "nproc_per_node", "num_processes", "multi_gpu"}
"""Options of launchers that burst does by itself, or that are looked at on their own."""
_PLACE = {
    "nnodes", "node_rank", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "master_addr",
    "master_port", "local_addr", "max_restarts", "monitor_interval", "num_machines",
    "machine_rank", "main_process_ip", "main_process_port", "same_network", "gpu_ids",
}  # fmt: skip
_SHELL = re.compile(r"[$*?\[\]~{}#\\]")


@dataclass(frozen=True)
class Direct:
    """A command without its launcher."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    """What the launcher would have set for the script."""
    said: str = ""
    """What of the launcher's options has no effect; for people."""


def without_launcher(words: Sequence[str], ranks: int) -> Direct | None:
    """The command that a launcher in front would have started, or None where there is none.

    Args:
        words: the command; a line for the shell is looked into if the shell has nothing to expand.
        ranks: how many processes the trial has. One may start a gang of its own.

    Raises:
        UsageError: it is a launcher whose processes burst cannot start.
        SystemExit: the launcher does not take its options, and has said so on stderr.
    """
    if ranks == 1:
        return None
    words = _of_shell(words)
    name, rest = _launcher_of(words)
    match name:
        case "torchrun":
            return _without_torchrun(rest, ranks)
        case "accelerate":
            return _without_accelerate(rest, ranks)
        case "deepspeed":
            raise _refused("deepspeed", ranks)
    return None


def _of_shell(words: Sequence[str]) -> Sequence[str]:
    """The words of a line that `interpolate` gives to the shell, if it is one simple command."""
    if tuple(words[:2]) != ("/bin/sh", "-c") or not words[2].startswith("exec "):
        return words
    line = words[2].removeprefix("exec ")
    plain = not _SHELL.search(re.sub(r"'[^']*'", "", line))
    return shlex.split(line) if plain else words


def _launcher_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which launcher stands in front, and the words after it."""
    first, rest = PurePath(words[0]).name, list(words[1:])
    if first in ("torchrun", "deepspeed"):
        return first, rest
    if first == "accelerate-launch":
        return "accelerate", rest
    if first == "accelerate" and rest[:1] == ["launch"]:
        return "accelerate", rest[1:]
    while rest and rest[0] in ("-u", "-B"):
        rest = rest[1:]
    if not first.startswith("python") or rest[:1] != ["-m"] or len(rest) < 2:
        return "", []
    if rest[1] in _TORCH:
        return "torchrun", rest[2:]
    return ("accelerate", rest[2:]) if rest[1] in _ACCELERATE else ("", [])


def _without_torchrun(rest: list[str], ranks: int) -> Direct:
    from torch.distributed.run import get_args_parser

    parser = get_args_parser()
    asked = parser.parse_args(rest)
    return Direct(_command(asked), said=_said("torchrun", parser, asked, ranks))


def _without_accelerate(rest: list[str], ranks: int) -> Direct:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    parser = launch_command_parser()
    asked = parser.parse_args(rest)
    said = _said("accelerate launch", parser, asked, ranks)
    asked, _, _ = _validate_launch_command(asked)
    if asked.use_deepspeed or asked.tpu:
        what = "--use_deepspeed" if asked.use_deepspeed else "--tpu"
        raise _refused(f"accelerate launch {what}", ranks)
    # It looks at no port and no node then.
    asked.num_machines, asked.machine_rank, asked.main_process_port = 1, 0, 0
    told: Mapping[str, str] = prepare_multi_gpu_env(asked)
    kept = {name: value for name, value in told.items() if name.startswith(_KEPT)}
    if asked.cpu or getattr(asked, "use_cpu", False):
        kept["ACCELERATE_USE_CPU"] = "True"
    return Direct(_command(asked), kept, said)


def _command(asked: Namespace) -> list[str]:
    python = [] if asked.no_python else [sys.executable, *(["-m"] if asked.module else [])]
    return [*python, asked.training_script, *asked.training_script_args]


def _said(launcher: str, parser: ArgumentParser, asked: Namespace, ranks: int) -> str:
    text = f"it starts the trial's {ranks} processes itself, so {launcher} is left out"
    number = _number(getattr(asked, "nproc_per_node", None) or asked.num_processes)
    if number is not None and number != ranks:
        text += f"; it asks for {number}"
    vain = [option for option in _given(parser, asked) if option.lstrip("-") in _PLACE]
    return f"{text}; nothing comes of {', '.join(vain)}" if vain else text


def _given(parser: ArgumentParser, asked: Namespace) -> list[str]:
    """The options that do not have their defaults, as they are written."""
    found = []
    for action in parser._actions:
        name = action.dest
        if name not in _SCRIPT | _IS_SO and getattr(asked, name, None) != action.default:
            written = [each for each in action.option_strings if each.startswith("--")]
            found.append(next((each for each in written if "_" in each), written[0]))
    return found


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _refused(launcher: str, ranks: int) -> UsageError:
    return UsageError(
        f"{launcher} cannot start the trial's {ranks} processes",
        why="burst starts one a slot itself, and tells each its rank as torchrun does",
        mend="write `entrypoint: [python, train.py, …]` with the script and its own arguments",
    )


def explain(direct: Direct) -> None:
    """Say once, in the log of the first rank, what became of the launcher."""
    if os.environ.get("RANK", "0") == "0":
        print(f"burst: {direct.said}", file=sys.stderr, flush=True)
