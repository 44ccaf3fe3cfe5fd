"""Failing, and dying, at every single step of a protocol, one after the other and not by luck.

A run is done once to count its steps, then once more for each of them:

    for plan in plans(lambda plan: save(FaultyBlobs(FolderBlobs(root, FaultyDisk(plan)), plan))):
        with dying():
            save(…)            # with this plan, in a fresh folder
        assert restore(…)      # with FolderBlobs(root) as a new process has it

A killed plan's objects do nothing any more, whichever thread calls, clean-up included: like those
of a process that got SIGKILL. What it had open is closed and what it had locked is free. With
`disk.lose_power()` after that, the machine went down with it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from burst.core.blobs.disk import Disk
from burst.core.blobs.port import DAY_S, Batch, BlobInfo, Blobs, Unfinished
from burst.core.errors import Unreachable

T = TypeVar("T")


class Kill(BaseException):
    """The process has died; nothing that runs as part of it goes on."""


class How(Enum):
    KILL = "kill"
    """Die before the step; a write is half done."""
    FAIL = "fail"
    """The step does not happen, and says so."""
    LOST = "lost"
    """The step happens, but its answer is an error."""


class Plan:
    """Which step goes wrong, and how. One plan is shared by all that is of one process."""

    def __init__(
        self,
        at: int | None = None,
        how: How = How.KILL,
        *,
        error: Exception | None = None,
        times: int = 1,
    ) -> None:
        """
        Args:
            at: the number of the step, from 0; None: nothing goes wrong, steps are counted.
            error: what a step raises that fails; by default what is usual for its kind: a full
                disk, blobs that do not answer.
            times: how many steps from `at` on go wrong.
        """
        self.at = at
        self.how = how
        self.error = error
        self.times = times
        self.steps: list[str] = []
        """What was done, in order: `rename checkpoints/…`, `batch.put …`."""
        self.killed = False
        self.lock = threading.RLock()
        self._at_kill: list[Callable[[], object]] = []

    @property
    def reached(self) -> bool:
        """Whether the step was come to at all."""
        return self.at is not None and len(self.steps) > self.at

    @property
    def wrong(self) -> str:
        """The step that goes wrong, if it was come to."""
        return self.steps[self.at] if self.at is not None and self.reached else ""

    def at_kill(self, release: Callable[[], object]) -> None:
        """Call `release` when the process dies."""
        self._at_kill.append(release)

    def check(self) -> None:
        """
        Raises:
            Kill: if the process is dead.
        """
        if self.killed:
            raise Kill

    def kill(self) -> None:
        """Die now."""
        with self.lock:
            self.killed = True
            for release in self._at_kill:
                release()
            self._at_kill.clear()
        raise Kill

    def step(
        self,
        name: str,
        act: Callable[[], T],
        *,
        error: Exception,
        half: Callable[[], object] = lambda: None,
    ) -> T:
        """Do one step, or what the plan has for it.

        Args:
            error: the usual one of such a step.
            half: what is done of it where the process dies in its midst.
        """
        with self.lock:
            self.check()
            number = len(self.steps)
            self.steps.append(name)
        if self.at is None or not self.at <= number < self.at + self.times:
            return act()
        if self.how is How.KILL:
            half()
            self.kill()
        if self.how is How.LOST:
            act()
        raise self.error or error


def plans(
    run: Callable[[Plan], object], *hows: How, error: Exception | None = None
) -> Iterator[Plan]:
    """Runs `run` once with a plan in which nothing goes wrong, then yields a plan for each step
    that it took and each of `hows` (by default, to be killed there)."""
    counting = Plan()
    run(counting)
    for how in hows or (How.KILL,):
        for at in range(len(counting.steps)):
            yield Plan(at, how, error=error)


@contextmanager
def dying() -> Iterator[None]:
    """Survive, as the operating system does, a Kill raised inside."""
    with suppress(Kill):
        yield


class FaultyDisk(Disk):
    """A file system under `FolderBlobs(root, FaultyDisk(plan))`; every call is a step."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: dict[int, Path] = {}
        self._memory = _Memory()
        plan.at_kill(weakref.finalize(self, _close_all, self._open))

    def make_folder(self, path: Path) -> None:
        def act() -> None:
            if not path.is_dir():
                self._memory.made(path)
            super(FaultyDisk, self).make_folder(path)

        self._step("mkdir", path, act)

    def create(self, path: Path) -> int:
        def act() -> int:
            descriptor = super(FaultyDisk, self).create(path)
            self._open[descriptor] = path
            self._memory.dirty.add(path)
            return descriptor

        return self._step("create", path, act)

    def write(self, descriptor: int, data: memoryview, offset: int) -> None:
        write = super().write
        self._step(
            "write",
            self._open.get(descriptor),
            lambda: write(descriptor, data, offset),
            half=lambda: write(descriptor, data[: len(data) // 8192 * 4096], offset),
        )

    def truncate(self, descriptor: int, size: int) -> None:
        path = self._open.get(descriptor)
        self._step("truncate", path, lambda: super(FaultyDisk, self).truncate(descriptor, size))

    def sync(self, descriptor: int) -> None:
        path = self._open[descriptor]

        def act() -> None:
            super(FaultyDisk, self).sync(descriptor)
            self._memory.dirty.discard(path)

        self._step("fsync", path, act)

    def close(self, descriptor: int) -> None:
        with self._plan.lock:
            self._plan.check()
            self._open.pop(descriptor, None)
            super().close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        def act() -> None:
            before = target.read_bytes() if target.exists() else None
            super(FaultyDisk, self).rename(source, target)
            self._memory.renamed(source, target, before)

        self._step("rename", target, act)

    def rename_new(self, source: Path, target: Path) -> bool:
        def act() -> bool:
            renamed = super(FaultyDisk, self).rename_new(source, target)
            if renamed:
                self._memory.renamed(source, target, None)
            return renamed

        def half() -> None:
            """It has both names."""
            with suppress(FileExistsError):
                os.link(source, target)
                self._memory.renamed(source, target, None)

        return self._step("rename_new", target, act, half)

    def sync_folder(self, path: Path) -> None:
        def act() -> None:
            super(FaultyDisk, self).sync_folder(path)
            self._memory.synced(path)

        self._step("fsync folder", path, act)

    def remove(self, path: Path) -> None:
        self._step("unlink", path, lambda: super(FaultyDisk, self).remove(path))

    def remove_folder(self, path: Path) -> None:
        self._step("rmdir", path, lambda: super(FaultyDisk, self).remove_folder(path))

    def lock(self, path: Path, *, create: bool) -> tuple[int, bool]:
        def act() -> tuple[int, bool]:
            locked = super(FaultyDisk, self).lock(path, create=create)
            self._open[locked[0]] = path
            return locked

        return self._step("lock", path, act)

    def leave(self, folder: Path, descriptor: int) -> None:
        with self._plan.lock:
            if not self._plan.killed:
                self._open.pop(descriptor, None)
                super().leave(folder, descriptor)

    def lose_power(self) -> None:
        """Undo what no fsync has made durable: names that a rename or a mkdir made are gone again,
        replaced files are back, and files whose bytes were not fsynced are empty."""
        self._memory.lose()

    def _step(
        self,
        name: str,
        path: Path | None,
        act: Callable[[], T],
        half: Callable[[], object] = lambda: None,
    ) -> T:
        # One at a time: a descriptor that a kill has closed may be another file's at once.
        with self._plan.lock:
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._plan.step(f"{name} {path}", act, error=full, half=half)


class _Memory:
    """What a file system has not put on its disk yet, at the worst."""

    def __init__(self) -> None:
        self.dirty: set[Path] = set()
        """Files with bytes that were not fsynced."""
        self._undo: list[tuple[Path, Callable[[], object]]] = []
        """By the folder whose fsync makes it durable."""

    def made(self, folder: Path) -> None:
        self._undo.append((folder.parent, partial(shutil.rmtree, folder, ignore_errors=True)))

    def renamed(self, source: Path, target: Path, before: bytes | None) -> None:
        if source in self.dirty:
            self.dirty.discard(source)
            self.dirty.add(target)
        if before is None:
            undo: Callable[[], object] = partial(target.unlink, missing_ok=True)
        else:
            undo = partial(target.write_bytes, before)
        self._undo.append((target.parent, undo))

    def synced(self, folder: Path) -> None:
        self._undo = [(where, undo) for where, undo in self._undo if where != folder]

    def lose(self) -> None:
        for path in self.dirty:
            if path.exists():
                os.truncate(path, 0)
        for _, undo in reversed(self._undo):
            undo()
        self.dirty.clear()
        self._undo.clear()


def _close_all(descriptors: dict[int, Path]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()


class FaultyBlobs:
    """Blobs of which every call is a step; those within a call are the disk's."""

    def __init__(self, inner: Blobs, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan

    @property
    def url(self) -> str:
        return self._inner.url

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._step("put", key, lambda: self._inner.put(key, data))

    def put_new(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._step("put_new", key, lambda: self._inner.put_new(key, data))

    def batch(self) -> Batch:
        self._plan.check()
        return _FaultyBatch(self._inner.batch(), self._step)

    def put_file(self, key: str, path: Path) -> None:
        self._step("put_file", key, lambda: self._inner.put_file(key, path))

    def get(self, key: str) -> bytes:
        return self._step("get", key, lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        return self._step("get_range", key, lambda: self._inner.get_range(key, start, stop))

    def read_into(self, key: str, buffer: memoryview) -> int:
        return self._step("read_into", key, lambda: self._inner.read_into(key, buffer))

    def get_file(self, key: str, path: Path) -> None:
        self._step("get_file", key, lambda: self._inner.get_file(key, path))

    def info(self, key: str) -> BlobInfo | None:
        return self._step("info", key, lambda: self._inner.info(key))

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        return self._step("list", prefix, lambda: self._inner.list(prefix))

    def delete(self, key: str) -> None:
        self._step("delete", key, lambda: self._inner.delete(key))

    def unfinished(self, prefix: str = "", *, older_than: float = DAY_S) -> Sequence[Unfinished]:
        def act() -> Sequence[Unfinished]:
            return self._inner.unfinished(prefix, older_than=older_than)

        return self._step("unfinished", prefix, act)

    def discard(self, unfinished: Unfinished) -> None:
        self._step("discard", unfinished.key, lambda: self._inner.discard(unfinished))

    def local_path(self, key: str) -> Path | None:
        self._plan.check()
        return self._inner.local_path(key)

    def _step(self, name: str, key: str, act: Callable[[], T]) -> T:
        silence = Unreachable(f"the blobs did not answer ({name} {key})")
        return self._plan.step(f"{name} {key}", act, error=silence)


class _FaultyBatch:
    def __init__(self, inner: Batch, step: Callable[[str, str, Callable[[], None]], None]) -> None:
        self._inner = inner
        self._step = step

    def put(self, key: str, data: bytes | bytearray | memoryview, sha256: str) -> None:
        self._step("batch.put", key, lambda: self._inner.put(key, data, sha256))

    def finish(self) -> None:
        self._step("batch.finish", "", self._inner.finish)

    def abort(self) -> None:
        self._step("batch.abort", "", self._inner.abort)


def stepwise(inner: T, plan: Plan, *methods: str, error: Exception | None = None) -> T:
    """`inner` with each call of some of its methods a step of the plan, and no call after a kill.

    For a store, `stepwise(store, plan, "commit")` puts its commits among the steps.
    """
    return cast(T, _Stepwise(inner, plan, frozenset(methods), error))


class _Stepwise:
    def __init__(
        self, inner: object, plan: Plan, methods: frozenset[str], error: Exception | None
    ) -> None:
        self._inner = inner
        self._plan = plan
        self._methods = methods
        self._error = error or Unreachable("there was no answer")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        @wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            act = partial(found, *args, **kwargs)
            if name in self._methods:
                return self._plan.step(name, act, error=self._error)
            self._plan.check()
            return act()

        return call
