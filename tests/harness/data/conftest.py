"""Nothing is written to Hugging Face's cache by the tests of data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import datasets
import pytest


@pytest.fixture(autouse=True)
def hugging_faces_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "hugging-face"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(folder))
    yield folder
    assert not folder.exists()
