from __future__ import annotations

import pytest

from burst.core.checkpoints.assurance.causes import brief, cause

FULL = (
    "the checkpoint at batch {batch} was not saved: cannot write /mnt/c/exp-1.t0000/ckpt-2/{sha}\n"
    "  Why:  No space left on device\n"
    "  Mend: free space on that disk; nothing that was written before is lost"
)


def test_the_same_cause_is_known_again_at_another_batch_and_file() -> None:
    first, second = FULL.format(batch=3, sha="5c2d05a6"), FULL.format(batch=17, sha="c58da8d6")
    assert first != second
    assert cause(first) == cause(second)
    assert cause(first) != cause(first.replace("No space left", "Permission denied"))


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (FULL.format(batch=3, sha="x"),
         "cannot write /mnt/c/exp-1.t0000/ckpt-2/x: No space left on device"),
        ("the store does not answer", "the store does not answer"),
        ("one\n  Why:  two\n  Why:  three", "one: two: three"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_failure_is_told_on_one_line(problem: str, expected: str) -> None:
    assert brief(problem) == expected
