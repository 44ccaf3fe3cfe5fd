from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.assurance.causes import brief, cause

FULL = (
    "the checkpoint at batch {batch} was not saved: cannot write /mnt/c/exp-1.t0000/ckpt-2/{sha}\n"
    "  Why:  No space left on device\n"
    "  Mend: free space on that disk; nothing that was written before is lost"
)
S3 = (
    "the checkpoint at batch 7 was not saved: S3 did not answer for s3://bucket/team/prefix/"
    "checkpoints/exp-1m3k9zq4w01.t0000/ckpt-1m3k9zq4w0b/1234567890abcdef67890abcdef.safetensors\n"
    "  Why:  {why}\n"
    "  Mend: check the network, the credentials and the region"
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
        (S3.format(why="no\nno (AccessDenied)"),
         "S3 did not answer for s3://bucket/team/prefix…f67890abcdef.safetensors: "
         "no no (AccessDenied)"),
        ("one\ntwo\n  Why:  three\r\nfour\n  Mend: five\nsix\n  Why:  seven",
         "one two: three four: seven"),
        ("x" * 49, "x" * 23 + "…" + "x" * 24),
        ("x" * 48, "x" * 48),
    ],
)  # fmt: skip
def test_a_failure_is_told_on_one_line(problem: str, expected: str) -> None:
    assert brief(problem) == expected


@given(st.text(max_size=900))
def test_whatever_was_said_it_is_one_line_of_bounded_length(words: str) -> None:
    for problem in (words, S3.format(why=words)):
        line = brief(problem)
        assert len(line) <= 240
        assert len(line.splitlines()) <= 1
        assert all(len(word) <= 49 for word in line.split())
