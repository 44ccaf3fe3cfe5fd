"""`python -m burst.runner.agent`."""

from __future__ import annotations

import sys

from burst.runner.agent.serving.main import main

if __name__ == "__main__":
    sys.exit(main())
