"""`python -m burst.runner.node`."""

from __future__ import annotations

import sys

from burst.runner.node.main import main

if __name__ == "__main__":
    sys.exit(main())
