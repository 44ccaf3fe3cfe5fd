"""How soon machines are asked for: for a trial that was submitted, and for one that lost its own.

A rehearsal of the digits example: EC2, the table and the bucket are servers on this machine, every
instance is a real agent that really trains, and three of them are taken away, two with a notice of
two minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.result import Result

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
LOSSES = ("120s", "none", "120s")
LENGTH = "searcher.max_length=14ep"


def rehearsed() -> dict[str, Any]:
    """What `burst rehearse --json` reports at its end."""
    notices = [word for notice in LOSSES for word in ("--notice", notice)]
    words = ["rehearse", "exp.yaml", "--lose", str(len(LOSSES)), *notices, "--seed", "5"]
    command = [sys.executable, "-m", "burst.cli", *words, "--set", LENGTH, "--json"]
    done = subprocess.run(command, cwd=DIGITS, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def measure() -> list[Result]:
    """A row for each thing that is waited for."""
    report = rehearsed()
    rows = [
        Result(
            what="submit → machines asked for",
            ours=f"{report['first_asked']:.1f} s",
            against="",
            ratio=None,
            target="≤ 5 s",
            met=report["first_asked"] <= 5.0,
            note="one second of it waits for others that may come",
        )
    ]
    for number, loss in enumerate(report["recoveries"], start=1):
        warned = loss["notice"] is not None
        kind = f"a notice of {loss['notice']:.0f} s" if warned else "a loss without notice"
        most = 10.0 if warned else 90.0
        again = "never" if loss["resumed"] is None else f"after {loss['resumed']:.1f} s"
        rows.append(
            Result(
                what=f"{number}: {kind} → replacement asked for",
                ours=f"{loss['asked']:.1f} s",
                against="",
                ratio=None,
                target=f"≤ {most:.0f} s",
                met=loss["asked"] <= most,
                note=f"it trains again {again}; {loss['repeated']} batches were lost",
            )
        )
    left = len(report["left"]) + len(report["unexplained"])
    rows.append(
        Result("machines and other things left behind", str(left), "", None, "0", left == 0)
    )
    return rows
