"""Proving, beside an attempt, that what its trial saves can be restored.

A process to throw away (`burst.harness.rehearse`) restores a checkpoint and compares it with what
was saved. It has the attempt's code and environment, no accelerator, the lowest priority, and is
the first that the machine kills when memory runs out. It is done once in a trial's life, and only
for trials that are or may come where nodes are lost (`burst.runner.proof`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burst.core.checkpoints.assurance.proof import note_rehearsal
from burst.core.checkpoints.removal.delete import pin, restorable
from burst.core.errors import BurstError
from burst.core.launch import ALLOCATION_VARIABLE, LAUNCH_VARIABLE
from burst.core.model import Checkpoint, Trial
from burst.core.store import update
from burst.core.store.port import Store
from burst.runner.agent.attempts.masking import mask_text
from burst.runner.agent.ends.tails import last_lines_of
from burst.runner.agent.running.control import Start
from burst.runner.agent.running.process import Process
from burst.runner.agent.site import Site

log = logging.getLogger(__name__)

PINNED = "it is restored in rehearsal"
"""Why a checkpoint is pinned meanwhile: retention would take it away when the next one comes."""
_END_WITHIN_S = 10.0
_TRIES = 3
"""Checkpoints of one attempt; what fails with three is told and left."""
# For the shell: first to be killed when memory runs out, last to get a processor.
_GENTLY = '{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null; exec nice -n 19 "$@"'


@dataclass(frozen=True)
class Verdict:
    """What a rehearsal came to; neither is set where it could not be done."""

    good: bool = False
    problem: str = ""


def read_verdict(status: int | None, output: str) -> Verdict:
    """From the exit status and the JSON that the rehearsal wrote last. Pure.

    A process that was killed, or that ended without its report, has not said anything about the
    checkpoint.
    """
    report = next(filter(None, map(_json, reversed(output.splitlines()))), None)
    if report is None or status not in (0, 1):
        return Verdict()
    if status == 0:
        return Verdict(good=True)
    problems = report.get("problems") or report.get("problem") or "it did not come out as saved"
    return Verdict(problem=_words(problems))


class Rehearsal:
    """A thread beside an attempt, which can neither hold it up nor end it."""

    def __init__(
        self, site: Site, trial: str, folder: Path, start: Start, secrets: Iterable[str] = ()
    ) -> None:
        """
        Args:
            start: how the attempt's ranks are started.
            secrets: what no record may tell.
        """
        self._site = site
        self._secrets = tuple(secrets)
        self._trial = trial
        self._log = folder / "rehearsal.log"
        self._begin = replace(start, environ=environment(start.environ))
        if start.container is not None:
            own = replace(start.container, name=f"{start.container.name}-rehearsal", gpus=False)
            self._begin = replace(self._begin, container=own)
        self._tried: set[str] = set()
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._abandoned = False
        self._last = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rehearsal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """The attempt is over: prove what it left, within `seconds`."""
        self._last = True
        self._wake.set()
        self._thread.join(seconds)
        self.abandon()

    def end(self) -> None:
        """The trial is over, or another's: end it, and free what it has pinned."""
        self.abandon()
        self._thread.join(_END_WITHIN_S)

    def abandon(self) -> None:
        """End it; nothing more is written. Idempotent, and safe from any thread."""
        with self._lock:
            self._abandoned = self._last = True
            if self._process is not None:
                self._process.kill()
        self._wake.set()

    def _run(self) -> None:
        while not self._abandoned:
            last = self._last
            try:
                if self._look() or last:
                    return
            except BurstError as error:
                log.warning("rehearsing %s: %s", self._trial, error.what)
            except Exception:
                log.exception("rehearsing %s", self._trial)
                return
            if not self._last:
                self._wake.wait(self._site.settings.rehearse_every)

    def _look(self) -> bool:
        """Rehearse the trial's newest checkpoint if it was not tried; whether all is done."""
        store = self._site.ws.store
        if store.get(Trial, self._trial).proved:
            return True
        records = store.children(Checkpoint, self._trial)
        _clear(self._site, records)
        found = next((each for each in restorable(records) if each.durable), None)
        if found is None or found.id in self._tried:
            return False
        verdict = self._rehearse(found)
        if self._abandoned:
            return True
        if verdict.good or verdict.problem:
            self._note(found, verdict.problem)
        elif len(self._tried) == _TRIES:
            self._note(found, f"it could not be tried: {self._last_lines() or 'it was killed'}")
        return verdict.good or len(self._tried) >= _TRIES

    def _note(self, checkpoint: Checkpoint, problem: str) -> None:
        store, clock = self._site.ws.store, self._site.clock
        note_rehearsal(store, checkpoint, mask_text(problem, self._secrets), clock=clock)

    def _last_lines(self) -> str:
        return " ".join(last_lines_of(self._log, lines=3).split())[-300:]

    def _rehearse(self, checkpoint: Checkpoint) -> Verdict:
        store = self._site.ws.store
        mine = not checkpoint.pinned
        if mine:
            pin(store, checkpoint.id, PINNED)
        self._tried.add(checkpoint.id)
        try:
            return self._try(checkpoint)
        finally:
            if mine:
                _free(store, checkpoint.id)

    def _try(self, checkpoint: Checkpoint) -> Verdict:
        settings, store = self._site.settings, self._site.ws.store
        words = (*settings.rehearse, "--store", store.url, "--checkpoint", checkpoint.id)
        words += ("--node", self._site.node.id)
        command = ("/bin/sh", "-c", _GENTLY, "rehearsal", self._begin.command[0], *words)
        begin = replace(self._begin, command=command)
        self._log.unlink(missing_ok=True)
        with self._lock:
            if self._abandoned:
                return Verdict()
            process = self._process = Process(
                begin.program, environ=begin.environ, folder=begin.folder, log=self._log
            )
        timer = threading.Timer(settings.rehearse_limit, process.kill)
        timer.daemon = True
        timer.start()
        try:
            status = process.wait()
        finally:
            timer.cancel()
            with self._lock:
                self._process = None
            if begin.container is not None:
                begin.container.end()
        return read_verdict(status, self._log.read_text(errors="replace"))


def environment(of_ranks: Mapping[str, str]) -> dict[str, str]:
    """The ranks' environment, for a process that is none of them: it belongs to no launch, is not
    swept away when the ranks end, sees no accelerator and uses one thread."""
    without = (ALLOCATION_VARIABLE, LAUNCH_VARIABLE)
    kept = {name: value for name, value in of_ranks.items() if name not in without}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _clear(site: Site, records: list[Checkpoint]) -> None:
    """Unpin what an agent has left pinned that ended in the middle of it."""
    for record in records:
        if record.pinned and record.pin_reason == PINNED:
            _free(site.ws.store, record.id)


def _free(store: Store, checkpoint: str) -> None:
    """Unpin it, unless somebody else has pinned it meanwhile."""

    def change(record: Checkpoint) -> Checkpoint | None:
        if not record.pinned or record.pin_reason != PINNED:
            return None
        return record.model_copy(update={"pinned": False, "pin_reason": ""})

    update(store, Checkpoint, checkpoint, change)


def _json(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _words(problems: object) -> str:
    if isinstance(problems, list):
        first = "; ".join(_words(each) for each in problems[:3])
        return first + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
    if isinstance(problems, dict):
        return ": ".join(str(problems[name]) for name in ("key", "text") if name in problems)
    return " ".join(str(problems).split())[:300]
