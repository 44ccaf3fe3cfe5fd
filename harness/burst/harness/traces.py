"""A user's error as the user should see it: their own frames, without the harness above them."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

import burst.core
from burst.core.errors import BurstError
from burst.core.model import Failure

_OURS = (str(Path(__file__).parent), str(Path(burst.core.__file__).parent))
_CHARACTERS = 20_000


def failure_of(error: BaseException, rank: int, exit_code: int | None = None) -> Failure:
    """The failure that an exception makes."""
    return Failure(
        kind=type(error).__name__,
        message=str(error),
        traceback=format_user_traceback(error),
        rank=rank,
        exit_code=exit_code,
    )


def format_user_traceback(error: BaseException) -> str:
    """The traceback from the user's first frame on. Of an error that burst itself explains, the
    user's frames and the explanation: where in burst it was noticed helps nobody."""
    first = _first_user_frame(error.__traceback__)
    if first is None and isinstance(error, BurstError):
        return f"{type(error).__name__}: {error}\n"
    told = traceback.TracebackException(type(error), error, first or error.__traceback__)
    if isinstance(error, BurstError):
        users = [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
        told.stack = traceback.StackSummary.from_list(users)
    return "".join(told.format())[-_CHARACTERS:]


def _first_user_frame(frame: TracebackType | None) -> TracebackType | None:
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if not name.startswith((*_OURS, "<frozen")):
            return frame
        frame = frame.tb_next
    return None
