"""Secrets are starred out, also where they lie across two pieces of a stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from burst.core.model import Exit, ExitKind, Failure
from burst.runner.agent.attempts.masking import Masker, mask_exit, mask_text

words = st.text("abX", min_size=4, max_size=7)


def _stream(secrets: list[str], data: bytes, cuts: list[int]) -> bytes:
    masker = Masker(secrets)
    places = sorted({min(cut, len(data)) for cut in cuts})
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    return b"".join(map(masker.feed, pieces)) + masker.finish()


@given(st.lists(words, min_size=1, max_size=3), st.text("abX \n", max_size=60), st.data())
def test_where_a_stream_is_cut_changes_nothing_and_no_secret_comes_through(
    secrets: list[str], text: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    masked = _stream(secrets, text.encode(), cuts)
    assert not any(secret.encode() in masked for secret in secrets)


@given(words, st.text("abX \n", max_size=60), st.data())
def test_one_secret_is_masked_as_in_the_whole_text(
    secret: str, text: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    assert _stream([secret], text.encode(), cuts).decode() == text.replace(secret, "***")


def test_nothing_is_held_back_that_cannot_begin_a_secret() -> None:
    masker = Masker(["token-123"])
    assert masker.feed(b"a line\n") == b"a line\n"
    assert masker.feed(b"tok") == b""
    assert masker.held == 3
    assert masker.feed(b"yo\n") == b"tokyo\n"


def test_without_secrets_bytes_pass_as_they_are() -> None:
    masker = Masker([])
    assert masker.feed(b"\xff\x00") + masker.finish() == b"\xff\x00"


def test_a_very_short_secret_does_not_star_out_the_log() -> None:
    assert Masker(["a", " "]).feed(b"banana") == b"banana"


def test_a_failure_is_masked_in_every_text() -> None:
    failure = Failure(kind="hunter22", message="with hunter22", traceback="x\nhunter22")
    masked = mask_exit(Exit(kind=ExitKind.CRASHED, failure=failure), ["hunter22"])
    assert "hunter22" not in masked.model_dump_json()
    assert masked.failure is not None
    assert masked.failure.message == "with ***"


def test_text_that_is_not_utf8_is_masked_without_an_error() -> None:
    assert mask_text("\udcff secret", ["secret"]).endswith(" ***")
