"""What a person asks for, as functions over a workspace, for the command line and the page."""

from __future__ import annotations

from burst.runner.commands.lifecycle import cancel, kill, pause, resume
from burst.runner.commands.moving import move, resume_pool
from burst.runner.commands.submit import Submission, check_experiment, submit

__all__ = [
    "Submission",
    "cancel",
    "check_experiment",
    "kill",
    "move",
    "pause",
    "resume",
    "resume_pool",
    "submit",
]
