"""`module:Class` in the user's code, found or explained."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from burst.harness.errors import TrialError, did_you_mean


def resolve(entrypoint: str, code: Path) -> Any:
    """What `module:Class` names; `code` is the folder of the user's code, already importable.

    Raises:
        TrialError: no such module or name, with the nearest ones. An error inside the module comes
            through as it is.
    """
    module_name, _, class_name = entrypoint.partition(":")
    module = _module(module_name, code)
    try:
        return getattr(module, class_name)
    except AttributeError:
        raise TrialError(
            f"the module {module_name!r} has no class {class_name!r}",
            why=f"`entrypoint` is {entrypoint!r}",
            mend=did_you_mean(class_name, _classes(module)),
        ) from None


def _module(name: str, code: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise TrialError(
            f"there is no module {error.name!r} in the code folder",
            why=f"`entrypoint` names the module {name!r}",
            mend=did_you_mean(name, [m.name for m in pkgutil.iter_modules([str(code)])]),
        ) from None


def _classes(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
