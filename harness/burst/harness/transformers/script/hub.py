"""Makes what needs a model hub fail soon and clearly on a node that reaches none.

The libraries try for half a minute for each file, and then say that a connection failed. Before
the first request to a host this looks whether a connection to it can be made at all. Where one
can, nothing is changed, and every answer is the host's own. Where none can, requests end at once,
as in the libraries' own offline mode: what is cached is found, and for anything else they say what
was asked for, why it cannot be had, and what to do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from burst.core.launch import read_launch, write_failure
from burst.core.model import Failure
from burst.harness.errors import TrialError

_raised: dict[str, HubUnreachable] = {}
"""What was asked for in vain, by URL."""
LIMIT_S = 3.0
"""How long a host may take to be found out of reach."""
_AGAIN_S = 0.5
_VALID_S = 60.0
"""How long it is then taken to be so, for a script that goes on without it."""


class HubUnreachable(TrialError):
    """Something has to come from a hub, and this node reaches none."""

    name = ""
    """The repository that was asked for."""


class Looks:
    """Whether hosts can be connected to, as far as it was looked at."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[tuple[str, int], tuple[float, str]] = {}
        self._lock = threading.Lock()

    def fault(self, url: str) -> str:
        """Why no connection to a URL's host can be made; empty where one can, or where proxies
        stand between, which only a request itself can try."""
        parts = urlsplit(url)
        if not parts.hostname or getproxies():
            return ""
        place = (parts.hostname, parts.port or (80 if parts.scheme == "http" else 443))
        with self._lock:
            when, why = self._found.get(place, (0.0, "?"))
            if why == "?" or (why and self._now() - when > _VALID_S):
                why = _look(*place, LIMIT_S)
                self._found[place] = (self._now(), why)
            return why


def _look(host: str, port: int, limit: float) -> str:
    """Try to connect until it works or the time is over. A resolver does not know of time limits,
    so that it is asked in a thread."""
    said = [f"no answer within {limit:g} seconds"]
    end = time.monotonic() + limit
    over = threading.Event()

    def attempt() -> None:
        while True:
            try:
                left = max(0.1, end - time.monotonic())
                socket.create_connection((host, port), timeout=left).close()
                said[0] = ""
            except TimeoutError:
                pass
            except OSError as error:
                said[0] = error.strerror or str(error)
            if not said[0] or time.monotonic() + _AGAIN_S >= end:
                break
            time.sleep(_AGAIN_S)
        over.set()

    threading.Thread(target=attempt, name="burst-hub", daemon=True).start()
    over.wait(limit)
    return said[0]


def patch(module: ModuleType) -> None:
    """Change what `huggingface_hub.utils._http` does before every request."""
    original, looks = module.hf_request_event_hook, Looks()

    def hf_request_event_hook(request: Any) -> Any:
        told = original(request)
        url = str(request.url)
        why = looks.fault(url)
        if why:
            raise _offline(module, url, why)
        return told

    module.hf_request_event_hook = hf_request_event_hook  # type: ignore[attr-defined]


def _offline(module: ModuleType, url: str, why: str) -> Exception:
    """What the libraries expect in offline mode, with the error that it is for people."""
    _tell_of_uncaught()
    kind, name = _asked_for(module, url)
    error = unreachable(f"the {kind} {name}" if name else url, urlsplit(url).netloc, why)
    error.name = name
    _raised[url] = error
    raised: Exception = module.OfflineModeIsEnabled(str(error))
    raised.of = error  # type: ignore[attr-defined]
    return raised


def unreachable(what: str, host: str, why: str) -> HubUnreachable:
    return HubUnreachable(
        f"{what} is not on this node, and {host} cannot be reached from it",
        why=why,
        mend="put its files beside the script, or on storage that the node sees, and give the "
        "script that folder; or fill HF_HOME where there is a network, and set "
        '`environment.variables: {HF_HOME: …, HF_HUB_OFFLINE: "1"}`',
    )


def _asked_for(module: ModuleType, url: str) -> tuple[str, str]:
    """The kind and name of the repository that a URL is of; empty where it is of none."""
    with contextlib.suppress(Exception):
        kind, name = module._parse_repo_info_from_url(url)
        return kind or "repository", name or ""
    return "", ""


def _tell_of_uncaught() -> None:
    """Where the script leaves of it, have that be the failure of the trial: the traceback of the
    libraries ends with something that names neither what was missing nor what to do."""
    if getattr(sys.excepthook, "of_hub", False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        told = _cause(error)
        if told is not None:
            print(f"burst: {told}", file=sys.stderr, flush=True)
            _leave(told, error)

    hook.of_hub = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _cause(error: BaseException) -> HubUnreachable | None:
    """What an error came of, if it was that a hub is out of reach. Some of the libraries' errors
    keep no more of their cause than the name that was asked for."""
    chain = list(_chain(error))
    for told in _raised.values():
        if any(getattr(each, "of", None) is told for each in chain):
            return told
    texts = [str(each) for each in chain if isinstance(each, OSError)]
    named = (told for told in _raised.values() if told.name)
    return next((told for told in named if any(told.name in text for text in texts)), None)


def _leave(told: HubUnreachable, error: BaseException) -> None:
    spec, rank = read_launch(), int(os.environ.get("RANK", "0"))
    if spec is None:
        return
    failure = Failure(
        kind=type(told).__name__,
        message=str(told),
        traceback=_of_script(told, error, spec.path / "code"),
        rank=rank,
        exit_code=1,
    )
    with contextlib.suppress(OSError):
        write_failure(spec.path, rank, failure, time.time())


def _of_script(told: HubUnreachable, error: BaseException, code: Path) -> str:
    """Where in the script it happened; how the libraries came to it helps nobody."""
    shown = traceback.TracebackException(type(told), told, error.__traceback__)
    own = [each for each in shown.stack if Path(each.filename).absolute().is_relative_to(code)]
    shown.stack = traceback.StackSummary.from_list(own)
    return "".join(shown.format())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those it came of, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]
