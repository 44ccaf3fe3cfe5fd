"""`BurstCallback`, for scripts that name it."""

from __future__ import annotations

from pathlib import Path

import transformers.trainer

from burst.harness.arguments import folder_of
from burst.harness.transformers.trainer.patching import patch
from burst.harness.transformers.trainer.reporting import Reporting


class BurstCallback(Reporting):
    """Reports what a Trainer logs, and has its training kept.

    No script has to name it: in an experiment every Trainer is attached to burst. One that does
    may give it a folder, for when the script runs by itself: metrics and checkpoints are then kept
    there, and the script started again goes on where it was.

        Trainer(…, callbacks=[BurstCallback(folder="state")])
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """`folder` counts outside of an experiment only.

        Raises:
            UsageError: it is no path.
        """
        super().__init__()
        self.folder = folder_of(folder)
        patch(transformers.trainer)
