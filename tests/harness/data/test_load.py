"""Rows come from files as they lie, and what cannot be read says what to do."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burst.harness.data import DataError, load
from tests.core.blobs.mock_s3 import BUCKET, mock_s3
from tests.harness.data.text_support import files_below

ROWS = [{"text": f"row {index}", "label": index} for index in range(7)]
TABLE = pa.Table.from_pylist(ROWS)
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
COMMAS = "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in ROWS)


def _arrow(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, TABLE.schema) as writer:
        writer.write_table(TABLE)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "rows.jsonl": lambda path: path.write_text(LINES),
    "rows.json": lambda path: path.write_text(json.dumps(ROWS)),
    "rows.csv": lambda path: path.write_text(COMMAS),
    "rows.tsv": lambda path: path.write_text(COMMAS.replace(",", "\t")),
    "rows.parquet": lambda path: pq.write_table(TABLE, path),
    "rows.arrow": _arrow,
    "rows.jsonl.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "rows.csv.gz": lambda path: path.write_bytes(gzip.compress(COMMAS.encode())),
}


@pytest.fixture(params=list(WRITERS))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / "data" / request.param
    path.parent.mkdir()
    WRITERS[request.param](path)
    return path


def lines(path: Path, first: int = 0, number: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[first : first + number]))
    return path


def test_every_format_gives_its_rows_map_style_and_streaming(file: Path) -> None:
    assert list(load(file)) == ROWS
    assert list(load(file.parent)) == ROWS
    assert list(load(file, streaming=True)) == ROWS


def test_text_is_a_row_a_line_or_as_the_readers_option_says(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("one\ntwo\n")
    assert load(tmp_path / "book.txt")["text"][:] == ["one", "two"]
    whole = load(tmp_path / "book.txt", sample_by="document")
    assert whole["text"][:] == ["one\ntwo\n"]


def test_a_pattern_takes_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    lines(tmp_path / "b.jsonl", 3, 4)
    lines(tmp_path / "a.jsonl", 0, 3)
    lines(tmp_path / ".hidden.jsonl")
    assert list(load(tmp_path / "*.jsonl")) == ROWS


def test_a_folders_files_tell_their_split_and_others_are_no_data(tmp_path: Path) -> None:
    lines(tmp_path / "train" / "0.jsonl", 0, 3)
    lines(tmp_path / "train" / "1.jsonl", 3, 2)
    lines(tmp_path / "dev-00000.jsonl", 5, 1)
    (tmp_path / "README.md").write_text("what this is")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x.bin").touch()
    assert list(load(tmp_path, split="train")) == ROWS[:5]
    assert list(load(tmp_path, split="validation")) == ROWS[5:6]
    with pytest.raises(DataError, match=r"which rows of .* are wanted") as caught:
        load(tmp_path)
    assert "train (2 files)" in caught.value.why
    with pytest.raises(DataError, match="has no split 'trian'") as caught:
        load(tmp_path, split="trian")
    assert caught.value.mend == "did you mean train?"


def test_a_word_inside_of_another_is_no_split(tmp_path: Path) -> None:
    lines(tmp_path / "contest.jsonl", 0, 3)
    lines(tmp_path / "trained.jsonl", 3, 4)
    assert list(load(tmp_path)) == ROWS


def test_what_save_to_disk_wrote_is_read_as_it_is(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_list(ROWS)
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=rows, test=rows.select([2])).save_to_disk(tmp_path / "two")
    assert list(load(tmp_path / "one")) == ROWS
    assert list(load(tmp_path / "one", streaming=True)) == ROWS
    assert list(load(tmp_path / "two", split="test")) == [ROWS[2]]
    with pytest.raises(DataError, match="which rows"):
        load(tmp_path / "two")
    with pytest.raises(DataError, match="has no split 'tset'") as caught:
        load(tmp_path / "two", split="tset")
    assert caught.value.mend == "did you mean test?"


def test_nothing_there_is_told_and_never_looked_up_on_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines(tmp_path / "reviews.jsonl")
    with pytest.raises(DataError, match="there is nothing at") as caught:
        load(tmp_path / "review.jsonl")
    assert caught.value.mend == "did you mean reviews.jsonl?"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"there is nothing at .*/imdb"):
        load("imdb")
    with pytest.raises(DataError, match=r"there is nothing at .*/stanfordnlp/imdb"):
        load("stanfordnlp/imdb")


def test_an_empty_folder_and_a_pattern_that_fits_nothing_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "*.csv"):
        with pytest.raises(DataError, match="there are no files at"):
            load(path)


def test_several_formats_and_unknown_ones_are_told(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl")
    (tmp_path / "b.csv").write_text(COMMAS)
    with pytest.raises(DataError, match="several formats") as caught:
        load(tmp_path)
    assert "a.jsonl, b.csv" in caught.value.why
    (tmp_path / "c.bin").write_bytes(b"\0")
    with pytest.raises(DataError, match=r"the format of c\.bin"):
        load(tmp_path)


def test_a_damaged_file_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "whole"}\n{"text": "ha')
    with pytest.raises(DataError, match="cannot be read as json") as caught:
        load(tmp_path / "rows.jsonl")
    assert "rows.jsonl" in caught.value.why


def test_a_scheme_that_is_unknown_is_told() -> None:
    with pytest.raises(DataError, match="s4://bucket/rows cannot be opened"):
        load("s4://bucket/rows")


def test_the_same_content_elsewhere_is_the_same_table(tmp_path: Path, burst_home: Path) -> None:
    first = load(lines(tmp_path / "one" / "rows.jsonl"))
    second = load(lines(tmp_path / "two" / "rows.jsonl"))
    assert first._fingerprint == second._fingerprint
    cache = burst_home / "cache" / "data"
    assert len([name for name in files_below(cache) if name.endswith(".arrow")]) == 1


def test_other_content_under_the_same_name_is_another_table(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl")
    assert len(load(path)) == 7
    assert len(load(lines(path, 0, 3))) == 3


def test_a_folder_of_ones_own_keeps_the_table(tmp_path: Path, burst_home: Path) -> None:
    path = lines(tmp_path / "rows.jsonl")
    assert list(load(path, cache=tmp_path / "own")) == ROWS
    assert [name for name in files_below(tmp_path / "own") if name.endswith(".arrow")]
    assert not (burst_home / "cache").exists()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with mock_s3() as url:
        yield url


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder of files in a bucket, as its URL."""
    client = boto3.client("s3", endpoint_url=server)
    for name, body in {"train-0.jsonl": LINES, "test.jsonl": LINES[:30] + "\n"}.items():
        client.put_object(Bucket=BUCKET, Key=f"reviews/{name}", Body=body.encode())
    yield f"s3://{BUCKET}/reviews"
    client.close()


def test_a_bucket_is_read_map_style_and_streaming(
    bucket: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = f"{bucket}?endpoint_url={server}"
    assert list(load(at, split="train")) == ROWS
    assert list(load(at, split="train", streaming=True)) == ROWS
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert list(load(f"{bucket}/train-*.jsonl", streaming=True)) == ROWS
    assert list(load(f"{bucket}/train-0.jsonl")) == ROWS


def test_what_a_bucket_does_not_have_is_told(bucket: str, server: str) -> None:
    with pytest.raises(DataError, match=r"there is nothing at .*/revues"):
        load(f"s3://{BUCKET}/revues?endpoint_url={server}")
    with pytest.raises(DataError, match=r"there is nothing at|cannot be read"):
        load(f"s3://no-such-bucket/rows?endpoint_url={server}")


def test_content_is_told_from_other_of_its_size_where_the_place_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fsspec.filesystem("memory")
    # As a server that gives a length and nothing more.
    monkeypatch.setattr(
        type(memory), "info", lambda self, path, **_: {"name": path, "size": 16, "type": "file"}
    )
    for text in ("one", "two"):
        memory.pipe("/rows.jsonl", json.dumps({"text": text}).encode() + b"\n")
        assert load("memory://rows.jsonl")["text"][:] == [text]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and its address at a plain server of the web."""
    folder = tmp_path / "site"
    folder.mkdir()
    kind = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_file_of_the_web_that_has_changed_is_read_again(site: tuple[Path, str]) -> None:
    folder, url = site
    for number, text in enumerate(("one", "two")):
        path = folder / "rows.jsonl"
        path.write_text(json.dumps({"text": text}) + "\n")
        os.utime(path, (1e9 + number, 1e9 + number))
        assert load(f"{url}/rows.jsonl")["text"][:] == [text]
