"""The files of a project that the double of the `pulumi` command reads: Pulumi.yaml and the
settings of a stack, Pulumi.<stack>.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.infra.double.backend import Refusal
from tests.infra.double.secrets import Crypter, passphrase
from tests.infra.double.values import Props


class Project:
    """What lies in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._settings = _load(folder, "Pulumi")
        if not self._settings:
            raise Refusal(
                "no Pulumi.yaml project file found (searching upwards from "
                f"{folder}). If you have not created a project yet, use `pulumi new` to do so"
            )

    @property
    def name(self) -> str:
        return str(self._settings["name"])

    @property
    def backend(self) -> str:
        return str((self._settings.get("backend") or {}).get("url", ""))

    @property
    def program(self) -> Path:
        """Where `__main__.py` is, for a program that is not inline."""
        return (self.folder / (self._settings.get("main") or ".")).absolute()


class StackSettings:
    """Configuration of one stack of a project."""

    def __init__(self, project: Project, stack: str) -> None:
        self._project = project
        self._path = project.folder / f"Pulumi.{stack}.yaml"
        self._told: dict[str, Any] = _load(project.folder, f"Pulumi.{stack}")

    def crypter(self, environ: dict[str, str]) -> Crypter:
        """The one of this stack, made and remembered if there is none yet."""
        phrase = passphrase(environ)
        if salt := self._told.get("encryptionsalt"):
            return Crypter.again(phrase, salt)
        made = Crypter.new(phrase)
        self._told["encryptionsalt"] = made.salt
        self._save()
        return made

    def set(self, key: str, value: str, crypter: Crypter | None) -> None:
        """`crypter` for a secret."""
        told = self._told.setdefault("config", {})
        told[self._full(key)] = value if crypter is None else {"secure": crypter.encrypt(value)}
        self._save()

    def unset(self, key: str) -> None:
        self._told.get("config", {}).pop(self._full(key), None)
        self._save()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def all(self, environ: dict[str, str]) -> dict[str, Props]:
        """By full key: `value`, and whether it is `secret`."""
        found = self._told.get("config") or {}
        return {key: self._one(found[key], environ) for key in sorted(found)}

    def one(self, key: str, environ: dict[str, str]) -> Props:
        found = (self._told.get("config") or {}).get(self._full(key))
        if found is None:
            raise Refusal(f"configuration key '{key}' not found for stack")
        return self._one(found, environ)

    def _one(self, told: Any, environ: dict[str, str]) -> Props:
        if isinstance(told, dict) and set(told) == {"secure"}:
            value = self.crypter(environ).decrypt(told["secure"])
            return {"value": value, "secret": True}
        return {"value": told if isinstance(told, str) else yaml.safe_dump(told), "secret": False}

    def _full(self, key: str) -> str:
        return key if ":" in key else f"{self._project.name}:{key}"

    def _save(self) -> None:
        self._path.write_text(yaml.safe_dump(self._told))


def _load(folder: Path, name: str) -> dict[str, Any]:
    for end in (".yaml", ".yml", ".json"):
        path = folder / f"{name}{end}"
        if path.exists():
            return yaml.safe_load(path.read_text()) or {}
    return {}
