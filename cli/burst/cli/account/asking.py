"""Questions to a person, on stderr; who answers none is told so before anything is done."""

from __future__ import annotations

import sys

import click

from burst.cli.session import Session
from burst.core.errors import UsageError


class Asker:
    """Asks, unless `--yes` was given."""

    def __init__(self, session: Session, *, yes: bool, command: str, unasked: str = "") -> None:
        """
        Args:
            unasked: what to do where nobody can be asked; by default to add `--yes`.

        Raises:
            UsageError: nobody can be asked, and `--yes` was not given.
        """
        self._session = session
        self._yes = yes
        if not yes and not can_ask():
            raise UsageError(
                f"{command} asks before it changes anything, and nobody can answer here",
                why="its input is no terminal",
                mend=unasked or f"add --yes: {command} --yes",
            )

    @property
    def asks(self) -> bool:
        return not self._yes

    def agrees(self, question: str, *, default: bool = False) -> bool:
        """Whether a person says yes; `--yes` does."""
        return self._yes or click.confirm(question, default=default, err=True)

    def types(self, what: str, word: str) -> bool:
        """Whether a person types a word, for what cannot be undone. `--yes` does not stand for
        it: whoever asks has to know that it was said otherwise."""
        self._session.note(what)
        said: str = click.prompt(f"Type {word} to go on", default="", show_default=False, err=True)
        return said.strip() == word

    def chooses(self, question: str, words: tuple[str, ...]) -> str:
        """One of some words."""
        chosen: str = click.prompt(question, type=click.Choice(words), err=True)
        return chosen


def can_ask() -> bool:
    """Whether somebody sits before the input."""
    return sys.stdin is not None and sys.stdin.isatty()
