"""Determined's spellings, old and new, turned into burst's own.

What 0.38 documents is taken silently. What Determined itself had deprecated is taken with a
warning that names the new form, and what has no meaning here is left out with a warning that says
so. Nodes keep the place where they were written, so a later mistake points at the old spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from burst.core.config.dialect_parts import (
    CREDENTIALS,
    NO_CREDENTIALS,
    entrypoint,
    environment,
    log_policies,
    mixed_precision,
    searcher,
    storage,
)
from burst.core.config.document import Node, Report
from burst.core.config.trees import put, take


@dataclass(frozen=True)
class Move:
    """A field that lives elsewhere now."""

    old: str
    new: str
    deprecated: bool = False
    zero: str = ""
    """What a length of zero meant, where that is not what the new field says by it."""


MOVES = (
    Move("checkpoint_policy", "checkpoints.policy"),
    Move("checkpoint_storage.save_experiment_best", "checkpoints.keep.experiment_best"),
    Move("checkpoint_storage.save_trial_best", "checkpoints.keep.trial_best"),
    Move("checkpoint_storage.save_trial_latest", "checkpoints.keep.trial_latest"),
    Move("min_checkpoint_period", "checkpoints.every", deprecated=True, zero="auto"),
    Move("min_validation_period", "validate.every", deprecated=True, zero="null"),
    Move("perform_initial_validation", "validate.at_start"),
    Move("scheduling_unit", "report_every", deprecated=True),
    Move("preemption_timeout", "drain_grace"),
    Move("retention_policy.log_retention_days", "retention.log_days"),
    Move("resources.resource_pool", "resources.pools"),
)

IGNORED: Mapping[str, str] = {
    "debug": "it was for Determined's own logs",
    "data_layer": "data is read by the trial's own code",
    "internal": "it belongs to Determined's master",
    "security": "it belongs to Determined's master",
    "tensorboard_storage": "event files lie beside the trial's logs",
    "records_per_epoch": "an epoch is one pass over the training data",
    "resources.agent_label": "name a pool in `resources.pools`",
    "resources.native_parallel": "ranks are started by torch's launcher",
    "resources.slots": "write `resources.slots_per_trial`",
    "environment.add_capabilities": "trials are processes, not containers",
    "environment.drop_capabilities": "trials are processes, not containers",
    "environment.force_pull_image": "trials are processes, not containers",
    "environment.pod_spec": "there is no Kubernetes behind it",
    "environment.ports": "trials open no ports",
    "environment.proxy_ports": "trials open no ports",
    "optimizations.auto_tune_tensor_fusion": "it was Horovod's",
    "optimizations.average_training_metrics": "training metrics are always averaged over ranks",
    "optimizations.grad_updates_size_file": "it was Horovod's",
    "optimizations.gradient_compression": "it was Horovod's",
    "optimizations.tensor_fusion_cycle_time": "it was Horovod's",
    "optimizations.tensor_fusion_threshold": "it was Horovod's",
}

REFUSED: Mapping[str, tuple[str, str]] = {
    path: (CREDENTIALS, NO_CREDENTIALS)
    for path in (
        "checkpoint_storage.access_key",
        "checkpoint_storage.secret_key",
        "environment.registry_auth",
    )
}


def translate(root: Node, report: Report) -> None:
    """Rewrite `root`, a mapping, into burst's own form, in place."""
    for path, (message, hint) in REFUSED.items():
        if node := take(root, path):
            report.wrong(node, f"`{node.path}`: {message}", hint=hint)
    for path, reason in IGNORED.items():
        node = take(root, path)
        if node and node.value not in (None, False, 0, "", [], {}):
            report.warn(node, f"`{node.path}` is ignored: {reason}")
    for rewrite in (entrypoint, environment, log_policies, mixed_precision, searcher):
        rewrite(root, report)
    for move in MOVES:
        _move(root, move, report)
    storage(root, report)
    _leftovers(root, report)


def old_names(section: str) -> dict[str, str]:
    """The old names of a section's fields and where they live now, for suggestions."""
    moved = {move.old: move.new for move in MOVES}
    return {
        old.rpartition(".")[2]: new
        for old, new in {**moved, **{path: path for path in IGNORED}}.items()
        if old.rpartition(".")[0] == section
    }


def _move(root: Node, move: Move, report: Report) -> None:
    node = take(root, move.old)
    if node is None or node.value is None:
        return
    _adapt(node, move)
    if put(root, move.new, node, report) and move.deprecated:
        report.warn(node, f"`{move.old}` is deprecated; write `{_written(move.new, node)}`")


def _adapt(node: Node, move: Move) -> None:
    """Change a value where the new field writes it differently."""
    if move.old == "scheduling_unit" and type(node.value) is int:
        node.value = f"{node.value}ba"
    elif move.old == "resources.resource_pool" and isinstance(node.value, str):
        node.value = [Node(node.value, node.place, node.path, node.key)] if node.value else []
    elif move.zero and isinstance(node.value, dict) and [*node.plain().values()] == [0]:
        node.value = None if move.zero == "null" else move.zero


def _written(path: str, node: Node) -> str:
    value = node.plain()
    for name in reversed(path.split(".")):
        value = {name: value}
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.strip().removeprefix("{").removesuffix("}")


def _leftovers(root: Node, report: Report) -> None:
    """What is left of a section that has moved away: nothing, or a name that was never in it."""
    node = take(root, "retention_policy")
    for name, child in node.value.items() if node and isinstance(node.value, dict) else ():
        report.wrong(
            child,
            f"`retention_policy.{name}` is not a field of `retention_policy`",
            nearest="log_retention_days",
            at_key=True,
        )
