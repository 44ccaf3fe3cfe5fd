"""A machine's folder, wherever it lies."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from burst.runner.rehearsal.ec2.disk import Disk


@pytest.mark.parametrize("depth", [1, 12])
def test_a_machine_has_a_place_for_sockets_however_deep_its_folder_lies(
    tmp_path: Path, depth: int
) -> None:
    disk = Disk(tmp_path.joinpath(*["machines"] * depth))
    disk.make(b"", "http://127.0.0.1:1/shutdown")
    folder = Path(disk.environ(os.environ, {})["TMPDIR"])
    place = folder / "pymp-12345678"
    place.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "listener-12345678"))
    assert (disk.root / "tmp" / "pymp-12345678").is_dir()
    disk.make(b"", "http://127.0.0.1:1/shutdown")  # it boots again
    disk.forget()
    disk.forget()
    assert folder.exists() == (folder == disk.root / "tmp")
