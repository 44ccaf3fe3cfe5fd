"""Every row of every file is read once, as it is written; a file that cannot be is named."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burst.harness.data import DataError, DataLoader, load


@pytest.fixture
def closed() -> Iterator[None]:
    """Files are closed that Hugging Face's reader of csv leaves open when it is interrupted."""
    yield
    gc.collect()


def leaves_files_open(test: Any) -> Any:
    quiet = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
    return pytest.mark.usefixtures("closed")(quiet(test))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with nothing in it, not even burst's home."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def lines(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def both(path: Path, **options: Any) -> list[dict[str, Any]]:
    """The rows, which are the same map-style and streaming."""
    rows = list(load(path, **options))
    assert list(load(path, streaming=True, **options)) == rows
    return rows


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("a[1].jsonl", "a1.jsonl"),
        ("what?.jsonl", "what1.jsonl"),
        ("star*.jsonl", "starx.jsonl"),
        ("[!a]/x.jsonl", "b/x.jsonl"),
        ("{a,b}.jsonl", "a.jsonl"),
        ("a#b.jsonl", "a.jsonl"),
        ("100%20.jsonl", "100 .jsonl"),
        ("config.json", "a.json"),
    ],
)
def test_a_name_is_a_name_whatever_it_would_fit_as_a_pattern(
    name: str, other: str, data: Path
) -> None:
    lines(data / name, "this")
    lines(data / other, "the other")
    assert both(data / name) == [{"text": "this"}]
    assert sorted(row["text"] for row in both(data)) == ["the other", "this"]


def test_a_folder_with_a_patterns_signs_is_named_and_escaped(data: Path) -> None:
    lines(data / "br[1]" / "x.jsonl", "this")
    lines(data / "br1" / "x.jsonl", "the other")
    assert both(data / "br[1]") == [{"text": "this"}]
    assert both(data / "br[[]1]" / "*.jsonl") == [{"text": "this"}]
    assert both(data / "br[0-9]" / "*.jsonl") == [{"text": "the other"}]
    with pytest.raises(DataError, match="there are no files") as caught:
        load(data / "br[2]" / "*.jsonl")
    assert "[[] stands for [" in caught.value.mend


BROKEN: dict[str, tuple[str | bytes, str | bytes]] = {
    "json": ('{"text": "whole"}\n', '{"text": "whole"}\n{"text": "ha'),
    "jsonl": ('{"text": "whole"}\n', '{"text": "whole"}\n[1'),
    "csv": ("text,label\na,1\n", "text,label\na,1\nb,2,3,4\n"),
    "txt": ("whole\n", b"\xff\xfe\x00broken"),
    "parquet": (b"", b"PAR1 and no more"),
    "arrow": (b"", b"ARROW1 and no more"),
}


def _whole(path: Path, content: str | bytes) -> None:
    table = pa.table({"text": ["whole"]})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("end", list(BROKEN))
@leaves_files_open
def test_the_file_that_cannot_be_read_is_named_and_no_other(end: str, data: Path) -> None:
    whole, broken = BROKEN[end]
    for name in ("a", "c"):
        _whole(data / f"{name}.{end}", whole)
    path = data / f"b.{end}"
    path.write_bytes(broken.encode() if isinstance(broken, str) else broken)
    for streaming in (False, True):
        with pytest.raises(DataError, match="cannot be read as") as caught:
            list(load(data, streaming=streaming))
        assert str(path) in caught.value.why
        assert not any(f"{name}.{end}" in str(caught.value) for name in ("a", "c"))


def test_a_broken_file_is_named_by_a_worker_too(data: Path) -> None:
    lines(data / "a.jsonl", "whole")
    (data / "b.jsonl").write_text("broken")
    loader = DataLoader(load(data, streaming=True), 1, num_workers=1)
    source = loader.training_source(seed=1, rank=0, ranks=1)
    with pytest.raises(Exception, match=r"b\.jsonl"):
        list(source.batches(0))
    source.close()


def _no_groups(path: Path) -> None:
    schema = pa.schema({"text": pa.string()})
    pq.ParquetWriter(path, schema).close()


EMPTY: dict[str, Callable[[Path], Any]] = {
    "a.parquet": lambda path: pq.write_table(pa.table({"text": pa.array([], pa.string())}), path),
    "b.parquet": _no_groups,
    "c.parquet": lambda path: pq.write_table(pa.table({"text": pa.array([], pa.null())}), path),
    "a.csv": lambda path: path.write_text("text\n"),
    "b.csv": lambda path: path.touch(),
    "a.json": lambda path: path.touch(),
    "a.jsonl": lambda path: path.touch(),
    "a.txt": lambda path: path.touch(),
}


@pytest.mark.parametrize("name", list(EMPTY))
@leaves_files_open
def test_a_part_without_rows_is_no_hindrance_and_nothing_but_such_is_told(
    name: str, data: Path
) -> None:
    path = data / name
    EMPTY[name](path)
    with pytest.raises(DataError, match="there are no rows at"):
        load(path)
    content = {".csv": "text\nrow\n", ".txt": "row\n"}.get(path.suffix, '{"text": "row"}\n')
    for other in ("0", "z"):
        whole = path.with_stem(other)
        if path.suffix == ".parquet":
            pq.write_table(pa.table({"text": ["row"]}), whole)
        else:
            whole.write_text(content)
        assert {row["text"] for row in both(data)} == {"row"}
    assert len(load(data)) == 2


def test_a_saved_dataset_without_rows_is_told_as_such(data: Path) -> None:
    datasets.Dataset.from_dict({"text": []}).save_to_disk(data)
    with pytest.raises(DataError, match="there are no rows at"):
        load(data)


@leaves_files_open
def test_parts_may_have_their_columns_in_another_order_and_their_numbers_wider(
    data: Path,
) -> None:
    (data / "a.csv").write_text("text,label\na,1\n")
    (data / "b.csv").write_text("label,text\n2,b\n,c\n")
    (data / "c.csv").write_text("text,label\nd,0.5\n")
    rows = load(data)
    assert rows["text"][:] == ["a", "b", "c", "d"]
    assert rows["label"][:] == [1.0, 2.0, None, 0.5]


@pytest.mark.parametrize("turned", [False, True])
def test_parquets_parts_are_one_table_whichever_comes_first(turned: bool, data: Path) -> None:
    parts = [
        pa.table({"n": pa.array([1, None], pa.int32()), "ids": [[1], []]}),
        pa.table({"ids": pa.array([[2.5], None]), "n": pa.array([2**40, 3], pa.int64())}),
        pa.table({"ids": pa.array([[], []], pa.list_(pa.null())), "n": pa.nulls(2)}),
    ]
    for number, part in enumerate(reversed(parts) if turned else parts):
        pq.write_table(part, data / f"{number}.parquet")
    rows = load(data)
    values = [(row["n"], row["ids"]) for row in rows]
    expected = [(1, [1.0]), (None, []), (2**40, [2.5]), (3, None), (None, []), (None, [])]
    assert sorted(values, key=str) == sorted(expected, key=str)


def test_an_object_may_leave_out_what_others_have(data: Path) -> None:
    lines(data / "a.jsonl", "a")
    (data / "b.jsonl").write_text('{"label": 1.5, "text": "b"}\n')
    assert list(load(data)) == [{"text": "a", "label": None}, {"text": "b", "label": 1.5}]


def test_classes_that_parts_number_differently_are_not_mixed(data: Path) -> None:
    """The numbers are the same, and mean something else."""

    def part(name: str, *names: str) -> None:
        features = datasets.Features({"label": datasets.ClassLabel(names=[*names])})
        rows = datasets.Dataset.from_dict({"label": [0, 1]}, features=features)
        rows.to_parquet(data / f"{name}.parquet")

    part("0", "no", "yes")
    part("1", "no", "yes")
    assert [row["label"] for row in both(data)] == [0, 1] * 2
    assert load(data).features["label"].names == ["no", "yes"]
    part("2", "yes", "no")
    for streaming in (False, True):
        with pytest.raises(
            DataError, match="classes of column 'label' are not numbered"
        ) as caught:
            load(data, streaming=streaming)
        assert "2.parquet" in caught.value.why
        numbers = datasets.Features({"label": datasets.Value("int64")})
        assert len(list(load(data, streaming=streaming, features=numbers))) == 6


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([{"a": [1]}, {"a": ["x"]}], "column 'a' is not of one kind"),
        ([{"a": [1]}, {"a": [1], "b": [2]}], "has other columns than"),
        ([{"a": [2**60 + 1]}, {"a": [0.5]}], "cannot be read as parquet"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_their_names(
    parts: list[dict[str, Any]], told: str, data: Path
) -> None:
    for number, part in enumerate(parts):
        pq.write_table(pa.table(part), data / f"{number}.parquet")
    with pytest.raises(DataError, match=told) as caught:
        load(data)
    assert "0.parquet" in str(caught.value)


@leaves_files_open
def test_no_field_of_a_csv_is_taken_for_another(data: Path) -> None:
    """With fewer names than fields, the reader shifts them."""
    (data / "a.csv").write_text("text,label\na,1\n")
    path = data / "b.csv"
    path.write_text("text,label\nx,a,1\ny,b,2\n")
    for where in (path, data):
        for streaming in (False, True):
            with pytest.raises(DataError, match=r"b\.csv have more fields than its header"):
                list(load(where, streaming=streaming))
    assert [row["label"] for row in both(path, index_col=0)] == [1, 2]


@pytest.mark.parametrize("word", ["NA", "null", "None", "N/A", "NULL", "n/a", "<NA>", "#N/A"])
def test_a_word_of_a_csv_is_not_taken_for_nothing(word: str, data: Path) -> None:
    (data / "a.csv").write_text(f"text,label\n{word},1\n,nan\n")
    (data / "a.tsv").write_text(f"text\tlabel\n{word}\t1\n\tnan\n")
    for end in ("csv", "tsv"):
        rows = both(data / f"a.{end}")
        assert [row["text"] for row in rows] == [word, None]
        assert rows[0]["label"] == 1
    assert load(data / "a.csv", keep_default_na=True)["text"][:] == [None, None]


@pytest.mark.parametrize("end", ["txt", "csv", "jsonl"])
def test_the_mark_that_some_editors_begin_with_is_no_part_of_the_text(
    end: str, data: Path
) -> None:
    content = {"txt": "row\n", "csv": "text\nrow\n", "jsonl": '{"text": "row"}\n'}[end]
    for name in ("a", "b"):
        (data / f"{name}.{end}").write_text(content, "utf-8-sig")
    assert both(data) == [{"text": "row"}] * 2
