"""Calls a function when a module has been imported, and wires those of burst to the modules of
transformers that they change.

It is imported at the start of every Python program of a command, most of which never import
transformers: so it imports nothing that the interpreter has not loaded by then.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Act = Callable[[ModuleType], object]

_OURS = "burst.harness.transformers"
_KEEPING = f"{_OURS}.trainer.patching"
WIRES = {
    "transformers.trainer": (f"{_OURS}.script.gangs", _KEEPING),
    "transformers.hf_argparser": (f"{_OURS}.script.arguments",),
    "trl.scripts._hf_argparser": (f"{_OURS}.script.arguments",),
    "huggingface_hub.utils._http": (f"{_OURS}.script.hub",),
    "accelerate.state": (f"{_OURS}.script.alone",),
    "accelerate.accelerator": (f"{_OURS}.script.loops",),
}
"""The modules that burst changes, and its own whose `patch(module)` does it, in this order."""


class Finder:
    """A meta path finder that finds nothing itself: it has the modules it watches for found by the
    others, and acts once their code has run."""

    def __init__(self) -> None:
        self.acts: dict[str, list[Act]] = {}
        self._finding: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.acts or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec = _found_by_others(self, name, path, target)
        finally:
            self._finding.discard(name)
        if spec is not None and spec.loader is not None:
            self._follow(name, spec.loader)
        return spec

    def _follow(self, name: str, loader: object) -> None:
        """Have a loader tell when it has run the module. Its class stays what it is, for those
        who ask it for sources or data; it is one object a module."""
        run = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            run(module)
            if module.__name__ == name:
                del loader.exec_module  # type: ignore[attr-defined]
                for act in self.acts.pop(name, ()):
                    _guarded(act, module)

        setattr(loader, "exec_module", exec_module)  # noqa: B010


def on_import(name: str, act: Act) -> None:
    """Call `act(module)` when `name` has been imported, at once if it has. Its errors are said on
    stderr and go no further."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        _guarded(act, module)
        return
    finder().acts.setdefault(name, []).append(act)


def finder() -> Finder:
    """This process's finder, put before the others when it is first asked for."""
    for each in sys.meta_path:
        if isinstance(each, Finder):
            return each
    made = Finder()
    sys.meta_path.insert(0, made)
    return made


def install() -> None:
    """Watch for the modules that burst changes. Again does nothing."""
    watched = finder().acts
    for name, ours in WIRES.items():
        if name not in watched:
            for each in ours:
                on_import(name, _patch_of(each))


def _patch_of(ours: str) -> Act:
    def act(module: ModuleType) -> None:
        import importlib

        try:
            importlib.import_module(ours).patch(module)
        except Exception as error:
            if ours == _KEEPING:
                importlib.import_module(f"{_OURS}.script.refusing").refuse_if_kept(error)
            raise

    return act


def _found_by_others(
    finder: Finder, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for each in sys.meta_path:
        if each is not finder and hasattr(each, "find_spec"):
            spec = each.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _guarded(act: Act, module: ModuleType) -> None:
    try:
        act(module)
    except Exception as error:
        sys.stderr.write(f"burst: {module.__name__} is left as it is: {error!r}\n")
