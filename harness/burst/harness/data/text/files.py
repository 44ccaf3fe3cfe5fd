"""Which files a path names: one, a pattern's, or a folder's, here or in an object store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl

import fsspec

from burst.core.errors import BurstError
from burst.harness.data.errors import DataError
from burst.harness.errors import did_you_mean

_AS_WRITTEN: Mapping[str, Any] = {"keep_default_na": False, "na_values": ["", "nan", "NaN"]}
"""What a field of a csv has to be to count as missing: a text may well be `None` or `NA`."""
FORMATS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    ".csv": ("csv", _AS_WRITTEN),
    ".tsv": ("csv", {"sep": "\t", **_AS_WRITTEN}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".parquet": ("parquet", {"batch_size": 10_000}),
    ".arrow": ("arrow", {}),
    ".txt": ("text", {"encoding": "utf-8-sig"}),
}
"""By the end of a file's name: how Hugging Face calls its format, and what that is read with.
Parquet is read by a number of rows, as its reader else takes the first group's, which may be none;
text without the mark that some editors begin a file with."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_BESIDE = re.compile(
    r"(readme|license|licence|notice|_success)(\..*)?|.*\.(md|ya?ml|lock|py)", re.I
)
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SHOWN = 4
_MARKS = (
    "ETag",
    "etag",
    "ino",
    "mtime",
    "LastModified",
    "Last-Modified",
    "last_modified",
    "Digest",
)
"""What file systems say that tells a file's content from another's under its name."""


@dataclass(frozen=True)
class Files:
    """The files of one split, all of one format."""

    paths: tuple[str, ...]
    """As fsspec takes them, sorted."""
    format: str
    options: Mapping[str, Any]
    """What the format is read with, because of the files' names."""
    versions: tuple[str, ...]
    """One a file, other once its content is; empty where that cannot be told without reading."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """fsspec's options for where they lie."""


@dataclass(frozen=True)
class Saved:
    """What `Dataset.save_to_disk` (or DatasetDict's) wrote."""

    folder: str
    storage: Mapping[str, Any] = field(default_factory=dict)


def find(path: str | Path, split: str | None) -> Files | Saved:
    """The files at a path: of a folder, those of the split.

    Raises:
        DataError: nothing is there, no known format or several, no such split or several and none
            named, each with what there is.
    """
    url, storage = _place(str(path))
    system, inner = _opened(url, storage)
    if any(mark in inner for mark in "*?[") and not _is_there(system, inner):
        found = {name: info for name, info in _globbed(system, inner) if not _is_hidden(name)}
        root = re.split(r"[*?\[]", inner, maxsplit=1)[0].rpartition("/")[0]
    else:
        info = _info(system, inner, url)
        if info["type"] != "directory":
            found, root = {inner: info}, inner.rpartition("/")[0]
        elif any(system.exists(f"{inner}/{name}") for name in ("state.json", "dataset_dict.json")):
            return Saved(url, storage)
        else:
            found, root = _in_folder(system, inner), inner
    if not found:
        raise DataError(
            f"there are no files at {url}",
            why="the folder is empty, or the pattern fits nothing",
            mend=f"data lies in files that end in {', '.join(FORMATS)}, each maybe compressed; in "
            "a pattern, [[] stands for [ itself",
        )
    chosen = _of_split(found, root, split, url)
    name, options = _format(chosen, url)
    paths = tuple(sorted(chosen))
    versions = tuple(_version(path, chosen[path]) for path in paths)
    whole = tuple(system.unstrip_protocol(path) if storage or "://" in url else path
                  for path in paths)  # fmt: skip
    return Files(whole, name, options, versions, storage)


def _place(path: str) -> tuple[str, dict[str, Any]]:
    """fsspec's URL and options. As for blobs, `?endpoint_url=…` names the server of a bucket."""
    if "://" not in path:
        return str(Path(path).expanduser().absolute()), {}
    url, _, query = path.partition("?endpoint_url=")
    if not query or not url.startswith("s3://"):
        return path, {}
    endpoint = dict(parse_qsl(f"endpoint_url={query}"))["endpoint_url"]
    return url.rstrip("/"), {"endpoint_url": endpoint}


def _opened(url: str, storage: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        system, inner = fsspec.core.url_to_fs(url, **storage)
    except (ValueError, ImportError) as error:
        raise DataError(
            f"{url} cannot be opened",
            why=str(error),
            mend="give a path, or a URL such as s3://bucket/folder",
        ) from None
    return system, str(inner).rstrip("/")


def _info(system: Any, inner: str, url: str) -> Mapping[str, Any]:
    try:
        return dict(system.info(inner))
    except FileNotFoundError:
        raise DataError(
            f"there is nothing at {url}",
            why="no file and no folder; names are never looked up on a hub",
            mend=_near(system, inner)
            or "look for a mistake in the path; a path that is not "
            "absolute begins in the working folder",
        ) from None
    except Exception as error:
        raise _unreachable(url, error) from error


def _is_there(system: Any, inner: str) -> bool:
    """Whether what looks like a pattern is a name."""
    try:
        return bool(system.exists(inner))
    except Exception:  # what cannot be asked for as a name may still be listed
        return False


def _near(system: Any, inner: str) -> str:
    folder, _, name = inner.rpartition("/")
    try:
        names = [PurePosixPath(each).name for each in system.ls(folder or "/", detail=False)]
    except Exception:  # the error to tell is that of the path itself
        return ""
    said = did_you_mean(name, names)
    return said if said.startswith("did you mean") else ""


def _unreachable(url: str, error: Exception) -> BurstError:
    return DataError(
        f"{url} cannot be read",
        why=f"{type(error).__name__}: {error}",
        mend="see that the place is reachable from here, and that the credentials may read it",
    )


def _globbed(system: Any, pattern: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, info in system.glob(pattern, detail=True).items():
        if info["type"] == "file":
            yield name, info


def _in_folder(system: Any, folder: str) -> dict[str, Mapping[str, Any]]:
    found = system.find(folder, detail=True)
    return {
        name: info
        for name, info in found.items()
        if not _is_hidden(name.removeprefix(f"{folder}/"))
        and not _BESIDE.fullmatch(PurePosixPath(name).name)
    }


def _is_hidden(name: str) -> bool:
    """Whether some part of a path below the folder is no data by its name."""
    return any(part.startswith((".", "__")) for part in name.split("/"))


def _of_split(
    found: Mapping[str, Mapping[str, Any]], root: str, split: str | None, url: str
) -> dict[str, Mapping[str, Any]]:
    splits: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, info in found.items():
        splits.setdefault(_split_of(name.removeprefix(f"{root}/")), {})[name] = info
    named = {name: files for name, files in splits.items() if name}
    if not named:
        named = {"train": splits[""]}
    elif splits.get("") and not split:
        named[""] = splits[""]
    if split is None and len(named) == 1:
        return next(iter(named.values()))
    if split in named:
        return named[split]
    there = ", ".join(f"{name or 'others'} ({len(each)} files)" for name, each in named.items())
    raise no_split(url, split, [name for name in named if name], f"its files are: {there}")


def no_split(url: str, split: str | None, there: list[str], why: str) -> DataError:
    """What to say where a split has to be named, or another."""
    if split is None:
        mend = f'name one, such as split="{there[0]}"' if there else "give a pattern of files"
        return DataError(f"which rows of {url} are wanted?", why=why, mend=mend)
    return DataError(f"{url} has no split {split!r}", why=why, mend=did_you_mean(split, there))


def _split_of(name: str) -> str:
    """The split that a path says: a folder or a word of the file's name, as `train-00001`."""
    words = re.split(r"[^a-z]+", name.lower())
    return next((split for split, said in _SPLITS.items() if set(said) & set(words)), "")


def _format(files: Mapping[str, Mapping[str, Any]], url: str) -> tuple[str, Mapping[str, Any]]:
    ends: dict[str, str] = {}
    for name in sorted(files):
        ends.setdefault(_end(name), PurePosixPath(name).name)
    if unknown := [name for end, name in ends.items() if end not in FORMATS]:
        raise DataError(
            f"the format of {', '.join(unknown[:_SHOWN])} in {url} is not known",
            why=f"the end of a name tells it, and known are {', '.join(FORMATS)}",
            mend="name the files that are meant with a pattern, as in `data/*.jsonl`",
        )
    formats = {FORMATS[end][0] for end in ends}
    if len(ends) > 1 and (len(formats) > 1 or len({str(FORMATS[end][1]) for end in ends}) > 1):
        raise DataError(
            f"{url} has files of several formats",
            why=f"there are {', '.join(ends.values())}",
            mend="name those that are meant with a pattern, as in `data/*.jsonl`",
        )
    return FORMATS[next(iter(ends))]


def _end(name: str) -> str:
    path = PurePosixPath(name.lower())
    return PurePosixPath(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix


def _version(path: str, info: Mapping[str, Any]) -> str:
    marks = [info[key] for key in _MARKS if info.get(key)]
    if "ino" in info:
        marks.append(Path(path).stat().st_mtime_ns)
    return "|".join(map(str, [path, info.get("size"), *marks])) if marks else ""
