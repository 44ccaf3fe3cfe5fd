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
    for name in (word for word in words if word in state["disks"]):
        disk = state["disks"][name]
        rows = [("disk", disk["holds"], disk["mount"]), *disk["above"]]
        if state["array"] and name in state["array"]["of"] and state["array"]["runs"]:
            rows.append(("raid0", state["array"]["holds"], state["array"]["mount"]))
        for kind, holds, mount in rows:
            print(mount if columns == "MOUNTPOINT" else f"{kind} {holds}")
    return 0


def blkid(state: State, words: list[str]) -> int:
    labels = dict(_labels(state))
    if words[0] == "-L":
        found = [name for name, label in labels.items() if label == words[1]]
    else:
        found = [labels[words[-1]]] if labels.get(words[-1]) else []
    print(*found, sep="\n", end="\n" if found else "")
    return 0 if found else 2


def _labels(state: State) -> list[tuple[str, str]]:
    found = [(name, disk["label"]) for name, disk in state["disks"].items()]
    array = state["array"]
    return [*found, (array["name"], array["label"])] if array and array["runs"] else found


def mdadm(state: State, words: list[str]) -> int:
    if words[0] == "--assemble":
        if state["array"] is None:
            return 1
        state["array"]["runs"] = True
        _appear(state["array"]["name"])
        return 0
    disks = [word for word in words if word in state["disks"]]
    [count] = [int(word.split("=")[1]) for word in words if word.startswith("--raid-devices=")]
    if count != len(disks) or any(state["disks"][each]["holds"] for each in disks):
        print("mdadm: cannot open the disks", file=sys.stderr)
        return 1
    for each in disks:
        state["disks"][each]["holds"] = "linux_raid_member"
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
