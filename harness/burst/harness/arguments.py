"""What a script hands over when it first calls burst, seen to before anything is made of it."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burst.core.errors import UsageError
from burst.harness.values import fault_of_name, shown

_WITHOUT = "leave `folder` out to keep nothing"


def folder_of(value: Any) -> Path | None:
    """A folder of a script's own, from a path or None.

    Raises:
        UsageError: if it is neither, or says nothing, or is an address.
    """
    if value is None:
        return None
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise UsageError(
            f"`folder` is {shown(value)}",
            why=f"a folder is a path, and not {_kind(value)}",
            mend=f'write folder="runs/first", or {_WITHOUT}',
        )
    if not path.strip() or "\0" in path:
        raise UsageError(
            f"`folder` is {path!r:.60}, which names no folder",
            why="it may come from a variable that is not set",
            mend=f'write folder="." for this one, or {_WITHOUT}',
        )
    if why := fault_of_name(path):
        raise UsageError(
            f"`folder` is {path!r:.60}",
            why=f"records of what is in it name it in UTF-8, and {why}",
            mend=f'write folder="runs/first", or {_WITHOUT}',
        )
    if "://" in path:
        raise UsageError(
            f"`folder` is the address {path:.80}",
            why="a script on its own keeps its state in a folder of this machine",
            mend="give a path here; in an experiment, `checkpoint_storage` may be in S3",
        )
    return Path(path)


def named_values(argument: str, value: Any) -> dict[str, Any]:
    """A dict with names as its keys; empty for None.

    Raises:
        UsageError: if it is none.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(
            f"`{argument}` is {shown(value)}",
            why=f"it is a dict of names and values, and not {_kind(value)}",
            mend=f'write {argument}={{"lr": 0.1}}',
        )
    for name in value:
        if not isinstance(name, str):
            raise UsageError(
                f"`{argument}` has the key {shown(name)}",
                why=f"its keys are names, and not {_kind(name)}",
                mend=f'write {argument}={{"lr": 0.1}}',
            )
    return dict(value)


def metric_names(group: Any, metrics: Any) -> None:
    """See that metrics can be kept under their group and names, before anything is made of them.

    Raises:
        UsageError: if they cannot, naming the one that is at fault.
    """
    if why := fault_of_name(group):
        raise UsageError(
            f"a group of metrics is called {shown(group)}",
            why=f"the name of a group is text, and {why}",
            mend='name it with a string of ordinary text, such as "training"',
        )
    for name in metrics if isinstance(metrics, Mapping) else ():
        if why := fault_of_name(name):
            raise UsageError(
                f"a metric is called {shown(name)}",
                why=f"the name of a metric is text, and {why}",
                mend='name it with a string of ordinary text, such as {"loss": loss}',
            )


def whole_number(argument: str, value: Any, *, least: int, most: int | None = None) -> int:
    """
    Raises:
        UsageError: if it is no whole number, or less than `least`, or more than `most`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    beyond = number is not None and most is not None and number > most
    if number is None or number < least or beyond or isinstance(value, bool):
        raise UsageError(
            f"`{argument}` is {shown(value)}",
            why=f"it is a whole number, {least} {'or more' if most is None else f'to {most}'}",
            mend=f"write {argument}={least}, or leave it out",
        )
    return number


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
