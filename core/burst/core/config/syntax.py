"""What is wrong with a text that is not YAML, in the words of someone who wants to mend it."""

from __future__ import annotations

import re

import yaml

from burst.core.config.problems import Place, Problem, Source

_SYNTAX = (
    (r"character '\\t' that cannot start", "a tab cannot indent YAML", "use spaces"),
    (r"character '(.)' that cannot start", "a text cannot begin with this", "put it in quotes"),
    (
        r"mapping values are not allowed",
        "a `:` stands where no value can begin",
        "quote the text, or mend the indentation of this line",
    ),
    (
        r"expected <block end>",
        "this line does not fit under the lines above",
        "mend its indentation",
    ),
    (r"could not find expected ':'", "a key without a `:`", "write `key: value`"),
    (r"expected ',' or '\}'", "a `{` is not closed", "close it with `}`"),
    (r"expected ',' or '\]'", "a `[` is not closed", "close it with `]`"),
    (r"unexpected end of stream", "a quoted text is not closed", "close it"),
    (r"but found another document", "a second document begins here", "a file holds one"),
)


def explain_syntax(error: yaml.MarkedYAMLError, source: Source, shift: int) -> Problem:
    """PyYAML's complaint about a text, at the place where the reader has to mend it."""
    text = error.problem or error.context or "this is not YAML"
    mark = error.problem_mark or error.context_mark
    message, hint = next(
        ((said, hint) for pattern, said, hint in _SYNTAX if re.search(pattern, text)),
        (text, ""),
    )
    opened = error.context_mark
    if opened and message.endswith("is not closed"):
        end = len(source.lines[opened.line]) - (shift if opened.line == 0 else 0)
        if mark and mark.line == opened.line and mark.column < end:
            message, hint = "a `,` or a closing bracket is missing before this", ""
            if source.lines[mark.line][: mark.column + 1].endswith("${"):
                message, hint = "`{` begins a mapping here", 'quote the text: "${hp.…}"'
        else:
            mark = opened
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(source.lines):  # the end of the file; its last line is the one to show
        line = max(0, len(source.lines) - 1)
        column = len(source.lines[line].rstrip()) if source.lines else 0
    place = Place(source, line + 1, column + 1 + (shift if line == 0 else 0))
    return Problem(place, "", message, hint=hint)


def explain_unreadable(error: yaml.reader.ReaderError, text: str, source: Source) -> Problem:
    """A character that no YAML may hold."""
    before = text[: error.position].splitlines() or [""]
    place = Place(source, len(before), len(before[-1]) + 1)
    return Problem(place, "", "a control character; this is not a text file, or it is damaged")
