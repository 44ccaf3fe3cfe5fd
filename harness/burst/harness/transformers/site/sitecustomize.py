"""Attaches burst to the Python programs of a trial's command, before their first line runs.

Python imports a module of this name at its start, from the first folder of its path that has one:
`site.py` of the standard library says how. This one may run under any interpreter that the command
starts, one without burst among them, so it is plain and short, and whatever fails in it costs the
program nothing. Python's -I, -E and -S leave it out.
"""

import os
import sys

_OFF = ("off", "0", "false", "no")
_ON = ("", "on", "1", "true", "yes", "folders")


def attach(launch: str) -> None:
    """Install the hooks, or say once that this interpreter has no burst.

    Args:
        launch: the path of the launch's `spec.json`.
    """
    try:
        from burst.harness.transformers import hook
    except ImportError as error:
        mark = os.path.join(os.path.dirname(launch), "unattached")
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except OSError:
            return
        said = f"burst: {sys.executable} cannot import burst ({error}): a Trainer runs alone in it"
        sys.stderr.write(said + "\n")
        return
    hook.install()


def make_way(folder: str) -> None:
    """Run the `sitecustomize` that Python would have found without this folder, if there is one,
    and leave no trace of the folder in the path."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
    mine = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = mine


_launch = os.environ.get("BURST_LAUNCH")
_asked = os.environ.get("BURST_TRANSFORMERS", "").lower()
if _launch and _asked not in _OFF:
    if _asked not in _ON:
        sys.stderr.write(f"burst: BURST_TRANSFORMERS is {_asked!r}, not on, off or folders: on\n")
    try:
        attach(_launch)
    except Exception as error:
        sys.stderr.write(f"burst: not attached to this program: {error!r}\n")
make_way(os.path.dirname(os.path.abspath(__file__)))
