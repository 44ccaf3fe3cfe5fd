"""From what a person types to the record that is meant.

A whole id, any unique beginning of one (`exp-1m3k`, or `1m3k`), `latest` for the newest
experiment, `key:NAME` for the one that was submitted under a key, and `latest.t3`, `1m3k.t3` or
`key:NAME.t3` for a trial of it. Looking one up costs the same however many records there are.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterable
from typing import TypeVar

from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.errors import NotFound, UsageError
from burst.core.model import Checkpoint, Experiment, Key, Model, Node, Record, Trial
from burst.core.store.port import Store

LATEST = "latest"
KEY = "key:"
_TRIAL = re.compile(r"^(?P<experiment>.*)\.t(?P<number>\d{1,6})$", re.DOTALL)
_SHOWN = 8
_RECENT = 200
_LONGEST = 200
"""Letters of what was given that an error repeats."""

R = TypeVar("R", bound=Record)


def find_any(store: Store, ref: str) -> Experiment | Trial | Checkpoint | Node:
    """The record that `ref` means, of whichever kind it names.

    Raises:
        NotFound: no record is called so; the text names the nearest.
        UsageError: more than one is; the text names them.
    """
    if ref.startswith("ckpt-"):
        return find_checkpoint(store, ref)
    if ref.startswith("node-"):
        return find_node(store, ref)
    if _TRIAL.match(ref):
        return find_trial(store, ref)
    return find_experiment(store, ref)


def find_work(store: Store, ref: str) -> Experiment | Trial:
    """The experiment or trial that `ref` means."""
    return find_trial(store, ref) if _TRIAL.match(ref) else find_experiment(store, ref)


def find_experiment(store: Store, ref: str) -> Experiment:
    if ref == LATEST:
        newest = store.children(Experiment, "", limit=1, newest_first=True)
        if not newest:
            raise NotFound("there is no experiment yet", mend="start one: `burst run exp.yaml`")
        return newest[0]
    if ref.startswith(KEY):
        return _by_key(store, ref.removeprefix(KEY))
    return _by_prefix(store, Experiment, ref, "exp-")


def experiment_of_key(store: Store, name: str) -> Experiment | None:
    """What was submitted under a key, the newest if it was more than once; None if nothing was."""
    key = store.find(Key, Key.id_of(name))
    return store.find(Experiment, key.experiment) if key is not None else None


def find_trial(store: Store, ref: str) -> Trial:
    """The trial that `ref` means; an experiment's id will do where it has only one trial."""
    match = _TRIAL.match(ref)
    if match is None:
        return _only_trial(store, find_experiment(store, ref))
    experiment = find_experiment(store, match["experiment"])
    trial = store.find(Trial, f"{experiment.id}.t{int(match['number']):04d}")
    if trial is None:
        raise NotFound(
            f"{experiment.id} has no trial {int(match['number'])}",
            why=f"it has {_count(experiment.trials, 'trial')} so far, counted from 0",
            mend=f"`burst show {experiment.id}` lists them",
        )
    return trial


def find_node(store: Store, ref: str) -> Node:
    return _by_prefix(store, Node, ref, "node-")


def find_checkpoint(store: Store, ref: str) -> Checkpoint:
    """The checkpoint with this id or beginning, the newest durable one of a trial, or the newest
    version of a model's name."""
    if not ref.startswith("ckpt-"):
        model = store.find(Model, ref)
        if model is not None and model.versions:
            return store.get(Checkpoint, model.versions[-1])
        return newest_checkpoint(store, find_trial(store, ref))
    _check_given(ref, "ckpt-")
    exact = store.find(Checkpoint, ref)
    if exact is not None:
        return exact
    trials = [IMPORTS, *(trial.id for trial in _recent_trials(store))]
    recent = [c for trial in trials for c in store.children(Checkpoint, trial)]
    return _choose(ref, [c for c in recent if c.id.startswith(ref)], [c.id for c in recent])


def newest_checkpoint(store: Store, trial: Trial) -> Checkpoint:
    found = store.find(Checkpoint, trial.checkpoint) if trial.checkpoint else None
    if found is not None and (found.damaged or found.deleted is not None):
        from burst.core.checkpoints.removal.delete import restorable

        good = restorable(store.children(Checkpoint, trial.id))
        found = good[0] if good else found
    if found is None:
        raise NotFound(
            f"{trial.id} has no checkpoint",
            why="none was durable yet" if trial.live else "it ended before its first one",
            mend=f"`burst checkpoint list {trial.id}` shows those there were",
        )
    return found


def checkpoints_of(store: Store, ref: str) -> tuple[str, list[Checkpoint]]:
    """Whose checkpoints `ref` means, an experiment's, a trial's or all `imports`, and these."""
    if ref == IMPORTS:
        return "what was imported", store.children(Checkpoint, IMPORTS)
    from burst.cli import reading

    found = find_work(store, ref)
    return found.id, reading.checkpoints_of(store, found)


def find_source_id(store: Store, ref: str) -> str:
    """The whole id of the checkpoint or trial that `ref` means, or a model's name as it is.

    Raises:
        NotFound, UsageError: it means none, or more than one.
    """
    if store.find(Model, ref) is not None:
        return ref
    if ref.startswith("ckpt-"):
        return find_checkpoint(store, ref).id
    try:
        return find_trial(store, ref).id
    except NotFound as error:
        if ref.startswith("exp-") or ref == LATEST or _TRIAL.match(ref):
            raise
        if _is_path(ref):
            raise NotFound(
                f"there is no checkpoint, trial or model {ref!r}",
                why="it is a path, and what lies there is no checkpoint of burst yet",
                mend=f"import it first: `burst checkpoint import {shlex.quote(ref)} --name NAME`",
            ) from None
        raise NotFound(
            f"there is no checkpoint, trial or model {ref!r}",
            why=error.why,
            mend="`burst ls` prints the experiments, `burst checkpoint list imports` the models",
        ) from None


def _is_path(ref: str) -> bool:
    return os.sep in ref or ref in (os.curdir, os.pardir) or os.path.exists(ref)


def _check_given(whole: str, prefix: str) -> None:
    """The beginning of every id means none: it is what a variable without a value comes to, and
    must not act on the only record there is."""
    if not whole.removeprefix(prefix).strip():
        raise UsageError(
            "an id is missing",
            why="what was given is empty, or names no more than a kind",
            mend="`burst ls` prints the experiments there are, `latest` means the newest",
        )


def _by_prefix(store: Store, kind: type[R], ref: str, prefix: str) -> R:
    whole = ref if ref.startswith(prefix) else prefix + ref
    _check_given(whole, prefix)
    exact = store.find(kind, whole)
    if exact is not None:
        return exact
    beyond = store.children(kind, "", after=whole, limit=_SHOWN + 1)
    found = [record for record in beyond if record.id.startswith(whole)]
    recent = [] if found else store.children(kind, "", limit=_RECENT, newest_first=True)
    return _choose(ref, found, [record.id for record in recent])


def _by_key(store: Store, name: str) -> Experiment:
    _check_given(name, "")
    found = experiment_of_key(store, name)
    if found is None:
        raise NotFound(
            f"nothing was submitted under the key {_told(name)}",
            mend=f"`burst run exp.yaml --key {shlex.quote(name)}` does"
            if len(name) <= _LONGEST
            else "",
        )
    return found


def _choose(ref: str, found: list[R], known: Iterable[str]) -> R:
    if len(found) == 1:
        return found[0]
    if found:
        ids = [record.id + _described(record) for record in found[:_SHOWN]]
        more = "\n…" if len(found) > _SHOWN else ""
        raise UsageError(
            f"{_told(ref)} is the beginning of more than one id",
            why="\n".join(ids) + more,
            mend="type one more character of the one you mean",
        )
    near = difflib.get_close_matches(ref, list(known), n=3, cutoff=0.6)
    raise NotFound(
        f"there is no {_told(ref)}",
        why=f"the nearest: {', '.join(near)}" if near else "",
        mend="`burst ls` prints the experiments there are, `latest` means the newest",
    )


def _told(ref: str) -> str:
    """What was given, as far as anybody reads it."""
    return repr(ref if len(ref) <= _LONGEST else f"{ref[: _LONGEST - 1]}…")


def _described(record: Record) -> str:
    return f"  {record.name}, {record.state}" if isinstance(record, Experiment) else ""


def _only_trial(store: Store, experiment: Experiment) -> Trial:
    trials = store.children(Trial, experiment.id, limit=_SHOWN + 1)
    if len(trials) == 1:
        return trials[0]
    if not trials:
        raise NotFound(
            f"{experiment.id} has no trial yet",
            mend=f"`burst why {experiment.id}` says what it waits for",
        )
    more = "\n…" if len(trials) > _SHOWN else ""
    raise UsageError(
        f"{experiment.id} has {_count(experiment.trials, 'trial')}: say which",
        why="\n".join(trial.id for trial in trials[:_SHOWN]) + more,
    )


def _recent_trials(store: Store) -> list[Trial]:
    experiments = store.children(Experiment, "", limit=20, newest_first=True)
    return [trial for e in experiments for trial in store.children(Trial, e.id)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
