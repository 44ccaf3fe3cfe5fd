"""One run of one library in a process of its own: prints the digest of the final parameters."""

from __future__ import annotations

import argparse
import importlib
import logging
import warnings
from pathlib import Path

from benchmarks.peers.problem import seed_everything


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--resume-at", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    seed_everything()
    run = importlib.import_module(f"benchmarks.peers.{args.library}").run
    digest = run(args.folder, augment=args.augment, workers=args.workers, resume_at=args.resume_at)
    print(f"digest {digest}")


if __name__ == "__main__":
    main()
