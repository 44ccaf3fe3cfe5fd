"""Gives a trial's hyperparameters to the fields of the same name of a script's `HfArgumentParser`,
as if they had been written on its command line.

A field called after a hyperparameter at the top of `hyperparameters` has the trial's value,
whatever its default; one in a file of arguments gives way, which is said. A command line that says
something else is refused: the trial would be recorded with values that it did not train with.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

from burst.harness.errors import InvalidHP
from burst.harness.transformers.script.refusing import refuse

HPARAMS_VARIABLE = "BURST_HPARAMS"
_UNSET = object()


def patch(module: ModuleType) -> None:
    """Change the parser of `transformers.hf_argparser`, and so its subclasses; trl has a copy."""
    parser = module.HfArgumentParser
    _patch_command_line(parser)
    _patch_dict(parser)


def _patch_command_line(parser: Any) -> None:
    original = parser.parse_args_into_dataclasses

    @wraps(original)
    def parse_args_into_dataclasses(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = converted(self, _hparams())
        if not values:
            return original(self, *args, **kwargs)
        self.parse_known_args = _filling(self, values)
        try:
            return original(self, *args, **kwargs)
        finally:
            del self.parse_known_args

    parser.parse_args_into_dataclasses = parse_args_into_dataclasses


def _patch_dict(parser: Any) -> None:
    original = parser.parse_dict

    @wraps(original)
    def parse_dict(self: Any, args: Mapping[str, Any], *more: Any, **kwargs: Any) -> Any:
        values = converted(self, _hparams())
        for name, value in values.items():
            if name in args and args[name] != value:
                _say(f"the hyperparameter {name} is {value!r}, instead of {args[name]!r}")
        return original(self, {**args, **values}, *more, **kwargs)

    parser.parse_dict = parse_dict


def _filling(parser: ArgumentParser, values: Mapping[str, Any]) -> Any:
    """`parse_known_args` that fills in what the command line leaves open."""
    original = parser.parse_known_args

    def parse_known_args(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        open_ones = namespace or Namespace()
        required = [each for each in parser._actions if each.required and each.dest in values]
        for name in values:
            setattr(open_ones, name, _UNSET)
        for action in required:
            action.required = False
        try:
            found, rest = original(args, open_ones)
        finally:
            for action in required:
                action.required = True
        for name, value in values.items():
            given = getattr(found, name)
            if given is not _UNSET and given != value:
                _refuse_both(name, given, value)
            setattr(found, name, value)
        return found, rest

    return parse_known_args


def converted(parser: ArgumentParser, hparams: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters that a parser has arguments for, converted and checked as it does words.

    Ends the process if it takes one of them for no such value.
    """
    actions: dict[str, Action] = {}
    for action in parser._actions:
        if action.option_strings and action.nargs != 0:
            actions.setdefault(action.dest, action)
    return {
        name: _value_of(parser, actions[name], name, value)
        for name, value in hparams.items()
        if name in actions
    }


def _value_of(parser: ArgumentParser, action: Action, name: str, value: Any) -> Any:
    if value is None:
        return None
    several = isinstance(value, list) and action.nargs in ("+", "*")
    words = [_text(each) for each in (value if several else [value])]
    try:
        return parser._get_values(action, words)
    except ArgumentError as error:
        refuse(
            InvalidHP(
                f"the hyperparameter {name} is {_text(value):.80}, which the script does not take",
                why=str(error),
                mend=f"give `hyperparameters.{name}` a value that `{action.option_strings[0]}` "
                "takes on the command line",
            )
        )


def _refuse_both(name: str, given: Any, value: Any) -> None:
    refuse(
        InvalidHP(
            f"the script's {name} is {given!r:.80} on its command line, and {value!r:.80} as a "
            "hyperparameter",
            why="the trial is recorded with the one, and would train with the other",
            mend=f"leave `--{name}` out of `entrypoint`, or write `--{name} ${{hp.{name}}}`",
        )
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _say(text: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        print(f"burst: {text}", file=sys.stderr, flush=True)


def _hparams() -> dict[str, Any]:
    found = json.loads(os.environ.get(HPARAMS_VARIABLE) or "{}")
    return found if isinstance(found, dict) else {}
