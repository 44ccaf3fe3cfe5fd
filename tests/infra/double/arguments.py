"""Arguments of the double of the `pulumi` command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.infra.double.backend import Refusal

_WITH_VALUE = {
    "--client",
    "--color",
    "--config-file",
    "--cwd",
    "--event-log",
    "--exclude",
    "--exec-agent",
    "--exec-kind",
    "--file",
    "--import-pending-creates",
    "--message",
    "--page",
    "--page-size",
    "--parallel",
    "--secrets-provider",
    "--server",
    "--stack",
    "--target",
    "--verbose",
}
_SHORT = {"-s": "--stack", "-C": "--cwd", "-m": "--message", "-y": "--yes", "-p": "--parallel"}
_REFUSED = (
    "--target",
    "--exclude",
    "--replace",
    "--plan",
    "--save-plan",
    "--policy-pack",
    "--remote",
)


@dataclass
class Arguments:
    """Words, and flags by name; a flag without a value has an empty one."""

    words: list[str] = field(default_factory=list)
    flags: dict[str, list[str]] = field(default_factory=dict)

    def has(self, flag: str) -> bool:
        return flag in self.flags and self.flags[flag][-1] != "false"

    def value(self, flag: str, otherwise: str = "") -> str:
        return self.flags.get(flag, [otherwise])[-1]

    def values(self, flag: str) -> list[str]:
        return [part for value in self.flags.get(flag, []) for part in value.split(",")]


def parse(given: Sequence[str]) -> Arguments:
    """
    Raises:
        Refusal: a flag that the double does not know how to obey.
    """
    found = Arguments()
    left = list(given)
    setting_all = "set-all" in left
    while left:
        word = left.pop(0)
        if word == "--":
            found.words += left
            break
        if not word.startswith("-") or word == "-":
            found.words.append(word)
            continue
        flag, equals, value = _SHORT.get(word, word).partition("=")
        takes = flag in _WITH_VALUE or (
            setting_all and flag in ("--plaintext", "--secret", "--json")
        )
        if takes and not equals:
            value = left.pop(0)
        if flag in _REFUSED:
            raise Refusal(f"the double of pulumi does not know {flag}")
        found.flags.setdefault(flag, []).append(value)
    return found
