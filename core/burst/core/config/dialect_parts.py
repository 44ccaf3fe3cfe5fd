"""The parts of Determined's files that change their shape, and not only their place."""

from __future__ import annotations

import posixpath
import re

from burst.core.config.document import Node, Report
from burst.core.config.trees import entries_of, put, take

_LAUNCHER = re.compile(r"^determined\.launch\.(\w+)$")
CREDENTIALS = "credentials do not belong in a file that is kept with every experiment"
NO_CREDENTIALS = "remove it; nodes use their own role, or AWS's usual environment and profile"
_CLASS_OPTION = "--trial"
_TIME_UNITS = ("batches", "records", "epochs", "seconds")
_GONE_SEARCHERS = {
    "adaptive": "adaptive_asha",
    "adaptive_simple": "adaptive_asha",
    "sync_halving": "asha",
    "custom": "random",
    "pbt": "adaptive_asha",
}


def entrypoint(root: Node, report: Report) -> None:
    """Take off Determined's launcher: burst starts the ranks of every trial itself."""
    node = root.child("entrypoint")
    if node is None:
        return
    if isinstance(node.value, str):
        words = node.value.split()
    elif isinstance(node.value, list) and all(isinstance(n.value, str) for n in node.value):
        words = [part.value for part in node.value]
    else:
        return
    if len(words) < 3 or words[1] != "-m" or not (match := _LAUNCHER.match(words[2])):
        return
    if match[1] != "torch_distributed":
        report.wrong(
            node,
            f"the launcher `{words[2]}` is not supported",
            hint="burst starts the ranks itself, through torch.distributed; name only the script",
        )
        return
    rest = words[3:]
    if _CLASS_OPTION in rest[:-1]:
        node.value = rest[rest.index(_CLASS_OPTION) + 1]
    else:
        rest = rest[rest.index("--") + 1 :] if "--" in rest else rest
        command = [words[0], *rest] if rest and rest[0].endswith(".py") else rest
        node.value = (
            " ".join(command)
            if isinstance(node.value, str)
            else [Node(word, node.place, node.path, node.key) for word in command]
        )
    shown = node.plain() if isinstance(node.value, str) else " ".join(node.plain())
    report.warn(node, f"burst starts the ranks itself; write `entrypoint: {shown}`")


def environment(root: Node, report: Report) -> None:
    """`image` for each kind of slot, variables as one mapping of texts, devices as text."""
    image = root.child("environment", "image")
    if image and isinstance(image.value, str):
        kinds = ("cpu", "cuda", "rocm")
        image.value = {k: Node(image.value, image.place, image.path, image.key) for k in kinds}
    elif image and isinstance(image.value, dict) and "gpu" in image.value:
        old = image.value.pop("gpu")
        report.warn(old, f"`{old.path}` is deprecated; write `cuda`")
        put(root, "environment.image.cuda", old, report)
    if (written := take(root, "environment.environment_variables")) and written.value:
        _variables(root, written, report)
    for _, variable in entries_of(root.child("environment", "variables")):
        if isinstance(variable.value, bool | int | float):
            variable.value = variable.shown
    devices = root.child("resources", "devices")
    for device in devices.value if devices and isinstance(devices.value, list) else ():
        _device(device)


def _variables(root: Node, written: Node, report: Report) -> None:
    lists = list(written.value.values()) if isinstance(written.value, dict) else [written]
    found: dict[str, Node] = {}
    for part in lists:
        if not isinstance(part.value, list):
            report.wrong(part, f"`{part.path}` is a list of NAME=VALUE")
            continue
        for item in part.value:
            name, equals, value = str(item.value).partition("=")
            if not isinstance(item.value, str) or not equals or not name:
                report.wrong(item, f"`{item.path}` is written NAME=VALUE, not `{item.shown}`")
                continue
            node = Node(value, item.place, item.path, item.key)
            if name in found and found[name].value != value:
                report.wrong(
                    item,
                    f"`{name}` has two values",
                    hint="burst's variables are the same for every kind of slot",
                )
            found[name] = node
    for name, node in found.items():
        variables = root.child("environment", "variables")
        if variables is None or variables.value is None:
            put(root, "environment.variables", Node({}, written.place, written.path), report)
            variables = root.child("environment", "variables")
        if variables is not None and isinstance(variables.value, dict):
            _variable(variables, name, node, report)


def _variable(variables: Node, name: str, node: Node, report: Report) -> None:
    there = variables.value.get(name)
    if there is not None and there.place.source.override != node.place.source.override:
        if there.place.source.override:
            return
    elif there is not None and there.value != node.value:
        said = f"`{name}` has another value in `{variables.path}`"
        report.wrong(node, said, hint="keep one")
        return
    variables.value[name] = node


def _device(device: Node) -> None:
    if not isinstance(device.value, dict) or "host_path" not in device.value:
        return
    given = {name: str(node.plain()) for name, node in device.value.items()}
    host = given["host_path"]
    device.value = ":".join((host, given.get("container_path", host), given.get("mode", "mrw")))


def log_policies(root: Node, report: Report) -> None:
    """`action: {type: …}` of older files, and policies that only switch a default off."""
    node = root.child("log_policies")
    if node is None or not isinstance(node.value, list):
        return
    kept = []
    for policy in node.value:
        action = policy.child("action")
        if action and (kind := action.child("type")):
            policy.value["action"] = kind
        pattern = policy.child("pattern")
        if policy.child("name") and (pattern is None or pattern.value is None):
            report.warn(policy, f"`{policy.path}` is ignored: it has no pattern")
        else:
            kept.append(policy)
    node.value = kept


def mixed_precision(root: Node, report: Report) -> None:
    """Apex's levels: O0 is off, every other one trained in half precision."""
    node = root.child("optimizations", "mixed_precision")
    if node is None or node.value not in ("O0", "O1", "O2", "O3"):
        return
    node.value = "off" if node.value == "O0" else "fp16"
    if node.value != "off":
        report.warn(node, f"Apex's level is deprecated; write `mixed_precision: {node.value}`")


def searcher(root: Node, report: Report) -> None:
    """Old names, `time_metric` with `max_time`, and `stop_once`."""
    name = root.child("searcher", "name")
    if name and isinstance(name.value, str):
        if name.value == "async_halving":
            name.value = "asha"
        elif name.value in _GONE_SEARCHERS:
            new = _GONE_SEARCHERS[name.value]
            report.wrong(name, f"the searcher `{name.value}` is no more", nearest=new)
            root.value["searcher"] = Node({"name": name}, name.place, name.path, name.key)
            name.value = "single"
            return
    _top_rung(root, report)
    source = root.child("searcher", "source_trial_id")
    if source and type(source.value) is int:
        source.value = str(source.value)
    once = take(root, "searcher.stop_once")
    if once and isinstance(once.value, bool):
        new = "promote: false" if once.value else "promote: true"
        report.warn(once, f"`{once.path}` is deprecated; write `{new}`")
        once.value = not once.value
        put(root, "searcher.promote", once, report)
    elif once:
        report.wrong(once, f"`{once.path}` is true or false")


def _top_rung(root: Node, report: Report) -> None:
    """`time_metric` and `max_time` are a length, unless the metric is the user's own."""
    metric, most = root.child("searcher", "time_metric"), root.child("searcher", "max_time")
    if metric is None or most is None or metric.value not in _TIME_UNITS:
        return
    if type(most.value) is not int:
        return
    take(root, "searcher.time_metric")
    take(root, "searcher.max_time")
    length = Node(
        {metric.value: Node(most.value, most.place, most.path, most.key)},
        most.place,
        most.path,
        most.key,
    )
    there = root.child("searcher", "max_length")
    if there is None or there.plain() != length.plain():
        put(root, "searcher.max_length", length, report)


def storage(root: Node, report: Report) -> None:
    """Where checkpoints lie: one `path` for every kind of folder; one place, or a list of them."""
    node = take(root, "checkpoint_storage")
    if node is None or not node.value:
        return
    if not isinstance(node.value, dict | list):
        report.wrong(node, "`checkpoint_storage` is a mapping with a `type`, or a list of such")
        return
    for tier in [node] if isinstance(node.value, dict) else node.value:
        if isinstance(tier.value, dict):
            _tier(tier, report)
    if node.value:
        put(root, "checkpoints.storage", node, report)


def _tier(node: Node, report: Report) -> None:
    for name in ("propagation", "checkpoint_path", "tensorboard_path"):
        if (old := node.value.pop(name, None)) and old.value not in (None, "rprivate"):
            report.warn(old, f"`{old.path}` is ignored: trials are processes, not containers")
    for name in ("access_key", "secret_key"):
        if old := node.value.pop(name, None):
            report.wrong(old, f"`{old.path}`: {CREDENTIALS}", hint=NO_CREDENTIALS)
    container = node.value.pop("container_path", None)
    host, below = node.value.pop("host_path", None), node.value.pop("storage_path", None)
    path = host or container
    if path and below and isinstance(path.value, str) and isinstance(below.value, str):
        joined = posixpath.normpath(posixpath.join(path.value, below.value))
        if not f"{joined}/".startswith(f"{posixpath.normpath(path.value)}/".replace("//", "/")):
            report.wrong(below, f"`{below.path}` is not inside of `{path.path}`")
        path.value = joined
    if path:
        node.value["path"] = path
