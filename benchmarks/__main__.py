"""Runs the benchmarks, prints their rows and writes docs/benchmarks.md.

python -m benchmarks             all of them, and the page
python -m benchmarks loader …    only these, and no page
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks.result import Result

ALL = (
    "cli_speed",
    "first_batch",
    "overhead",
    "metric_reports",
    "loader",
    "text",
    "trainer",
    "exact_resume",
    "checkpoints",
    "checkpoint_often",
    "s3_transfer",
    "plan",
    "store_operations",
    "store_cost",
    "recovery",
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
TITLES = {
    "checkpoints": "Checkpoints of a 1.3 GB state",
    "checkpoint_often": "A checkpoint every two seconds",
    "s3_transfer": "To S3 and back",
    "store_operations": "What a pass of the runner asks of the store",
    "store_cost": "What a table in DynamoDB costs",
    "cli_speed": "The command line",
    "first_batch": "From submitting to the first batch",
    "overhead": "What the harness costs a step",
    "metric_reports": "Reporting metrics",
    "loader": "The data loader",
    "text": "Text",
    "trainer": "Trainer scripts",
    "exact_resume": "Exact resume, beside other libraries",
    "plan": "Deciding what runs where",
    "recovery": "Machines that are asked for, and lost",
}


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(ALL)}")
        return 2
    sections = []
    for name in names or ALL:
        began = time.monotonic()
        results = importlib.import_module(f"benchmarks.{name}").measure()
        took = time.monotonic() - began
        sections.append(f"## {TITLES[name]}\n\n{table(results)}\n\n`{name}`, {took:.0f} s.\n")
        print(sections[-1], flush=True)
    if not names:
        PAGE.write_text(page(sections))
        print(f"wrote {PAGE.name}")
    return 0


def table(results: list[Result]) -> str:
    """The rows as Markdown."""
    lines = ["| what | burst | against | ratio | target | |", "|---|---|---|---|---|---|"]
    for row in results:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
        verdict = {True: "met", False: "**missed**", None: ""}[row.met]
        cells = (row.what, row.ours, row.against, ratio, row.target, verdict)
        lines.append("| " + " | ".join(cells) + " |")
    notes = [f"- {row.what}: {row.note}" for row in results if row.note]
    return "\n".join(lines) + ("\n\n" + "\n".join(notes) if notes else "")


def page(sections: list[str]) -> str:
    """docs/benchmarks.md, as the figures came out."""
    machine = (
        f"{os.cpu_count()} CPU cores, {platform.system()}, Python {platform.python_version()}"
    )
    head = (
        "# Benchmarks\n\n"
        "Written by `scripts/benchmark`, as it came out; each ratio is against a peer or a limit "
        "in the same run, since machines differ and are noisy.\n\n"
        f"Measured on {machine}.\n"
    )
    return head + "\n" + "\n".join(sections)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
