"""`python -m burst.cli`: the same as `burst`, for when no script is on the path."""

from burst.cli.main import main

main()
