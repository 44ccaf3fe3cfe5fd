"""Stands for the programs that look at disks and change them, on disks that are lines of a file.

`python fake_disks.py PROGRAM STATE ARGUMENT…`; STATE is the JSON file that holds the machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

State = dict[str, Any]


def lsblk(state: State, words: list[str]) -> int:
    columns = words[words.index("--output") + 1]
    if "--nodeps" in words:
        for name, disk in state["disks"].items():
            print(name, disk["model"])
        return 0
    array = state["array"]
    for name in (word for word in words if word in state["disks"]):
        disk = state["disks"][name]
        rows = [("disk", disk["holds"], disk["mount"], name)]
        rows += [(*row, "/dev/dm-0") for row in disk["above"]]
        if array and name in array["of"] and array["runs"]:
            rows.append(("raid0", array["holds"], array["mount"], array["name"]))
        for kind, holds, mount, path in rows:
            shown = {"TYPE": kind, "FSTYPE": holds, "MOUNTPOINT": mount, "NAME": path}
            cells = [shown[column] for column in columns.split(",")]
            print(*(cell.replace(" ", r"\x20") if "--raw" in words else cell for cell in cells))
    return 0


def blkid(state: State, words: list[str]) -> int:
    column, path = words[words.index("-s") + 1], words[-1]
    target = _device(state, path)
    found = target["label"] if column == "LABEL" else target["holds"]
    if found:
        print(found)
    return 0 if found else 2


def mdadm(state: State, words: list[str]) -> int:
    if words[0] == "--assemble":
        if state["array"] is None or words[2:] != state["array"]["of"]:
            return 1
        state["array"]["runs"] = True
        _appear(state["array"]["name"])
        return 0
    disks = [word for word in words if word in state["disks"]]
    [count] = [int(word.split("=")[1]) for word in words if word.startswith("--raid-devices=")]
    if count != len(disks) or any(state["disks"][each]["holds"] for each in disks):
        print("mdadm: cannot open the disks", file=sys.stderr)
        return 1
    [label] = [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    for each in disks:
        state["disks"][each] |= {"holds": "linux_raid_member", "label": f"any:{label}"}
    state["array"] = {"name": words[1], "of": disks, "runs": True}
    state["array"] |= {"holds": "", "label": "", "mount": ""}
    _appear(words[1])
    return 0


def _appear(device: str) -> None:
    path = Path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def mkfs(kind: str, state: State, words: list[str]) -> int:
    target = _device(state, words[-1])
    if state["full"] or target["holds"]:
        print(f"mkfs.{kind}: {words[-1]} cannot be written", file=sys.stderr)
        return 1
    target |= {"holds": kind, "label": words[words.index("-L") + 1]}
    return 0


def mount(state: State, words: list[str]) -> int:
    target = _device(state, words[-2])
    if not target["holds"]:
        print(f"mount: {words[-2]}: no file system", file=sys.stderr)
        return 32
    target["mount"] = words[-1]
    return 0


def _device(state: State, name: str) -> State:
    array = state["array"]
    found: State = array if array and array["name"] == name else state["disks"][name]
    return found


def main() -> int:
    program, path, words = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    state: State = json.loads(path.read_text())
    state["asked"].append([program, *words])
    if program.startswith("mkfs."):
        status = mkfs(program.removeprefix("mkfs."), state, words)
    else:
        known = {"lsblk": lsblk, "blkid": blkid, "mdadm": mdadm, "mount": mount}
        status = known[program](state, words)
    path.write_text(json.dumps(state))
    return status


if __name__ == "__main__":
    sys.exit(main())
