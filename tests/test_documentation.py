"""What the documents say is so: links lead somewhere, files load, commands exist, code runs."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from pydantic import BaseModel

from burst.cli.root import cli
from burst.core.config import load_cluster, parse_experiment
from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import ExperimentConfig

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
PLACEHOLDERS = re.compile(r"…|\.\.\.|<|FILE|NAME|TRIAL\b")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    """The words after the fence: `yaml`, `python run`, …"""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@functools.cache
def pages() -> dict[str, str]:
    """Every Markdown file of the repository, tracked or about to be, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    return {path: (ROOT / path).read_text() for path in sorted(set(listed))
            if (ROOT / path).is_file()}  # fmt: skip


def blocks(*kinds: str) -> list[Block]:
    found = []
    for page, text in pages().items():
        for match in FENCE.finditer(text):
            if match[1].split(" ")[0] in kinds:
                line = text.count("\n", 0, match.start()) + 2
                found.append(Block(page, line, match[1], match[2]))
    return found


def prose(page: str) -> str:
    return FENCE.sub("", pages()[page])


def anchors(page: str) -> set[str]:
    """GitHub's names of a page's headings."""
    names: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", pages()[page]), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        seen = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None
                   for other in names)  # fmt: skip
        names.append(f"{name}-{seen}" if seen else name)
    return set(names)


def anchors_of(path: Path) -> set[str]:
    return anchors(str(path.resolve().relative_to(ROOT)))


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    lost = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        heading = not anchor or (there.is_file() and anchor in anchors_of(there))
        if not there.exists() or not heading:
            lost.append(target)
    assert not lost


def test_every_page_for_users_is_in_the_list_of_pages() -> None:
    listed = set(LINK.findall(prose("docs/index.md")))
    there = {path.removeprefix("docs/") for path in pages() if path.startswith("docs/")}
    assert there - {"index.md"} <= listed


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_every_file_in_yaml_loads(block: Block, tmp_path: Path) -> None:
    """Experiments and cluster files; a part of an experiment loads with an entrypoint added."""
    written = yaml.safe_load(block.text)
    if set(written) <= set(ClusterConfig.model_fields):
        path = tmp_path / "burst.yaml"
        path.write_text(block.text)
        load_cluster(path)
        return
    if "jobs" in written:
        return
    text = block.text if "entrypoint" in written else f"entrypoint: python t.py\n{block.text}"
    parse_experiment(text, str(block))


def command_lines(block: Block) -> Iterator[str]:
    prompt = "$ " if block.kind == "console" else ""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith(prompt) and line.strip():
            yield line.removeprefix(prompt)


def invocations() -> list[tuple[str, tuple[str, ...]]]:
    """Every call of burst in a block of a shell's, and in running text as `burst …`."""
    found = []
    for block in blocks("console", "bash"):
        found += [(f"{block}: {line}", line) for line in command_lines(block)]
    for page in pages():
        if re.fullmatch(r"docs/[\w-]+\.md", page):
            found += [(f"{page}: {code}", code)
                      for code in re.findall(r"`(burst [^`\n]+)`", prose(page))]  # fmt: skip
    calls = []
    for name, line in found:
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word in ("|", "||", "&&", ";", "&", ">", "2>", ">>"):
                if words[:1] == ["burst"]:
                    calls.append((name, tuple(words[1:])))
                words = []
            else:
                words.append(word)
    return calls


def check_call(words: tuple[str, ...]) -> str:
    """What is wrong with a call of burst; empty if its command and options are there."""
    command: click.Command = cli
    context = click.Context(cli, info_name="burst", **cli.context_settings)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if PLACEHOLDERS.search(word):
            continue
        if word.startswith("-") and word != "-":
            wanted = word.partition("=")[0]
            options = [p for p in command.get_params(context) if wanted in p.opts]
            if not options:
                return f"{command.name} has no option {word}"
            option = options[0]
            if isinstance(option, click.Option) and not option.is_flag and "=" not in word:
                rest = rest[1:]
        elif isinstance(command, click.Group):
            below = command.get_command(context, word)
            if below is None:
                return f"there is no command {word}"
            command = below
    return ""


@pytest.mark.parametrize("call", invocations(), ids=lambda call: str(call[0]))
def test_every_command_and_option_is_there(call: tuple[str, tuple[str, ...]]) -> None:
    assert check_call(call[1]) == ""


@pytest.mark.parametrize(
    "words", [("rum",), ("run", "--detached"), ("trial", "lst"), ("config", "show", "--jsn")]
)
def test_a_wrong_command_in_a_page_would_be_seen(words: tuple[str, ...]) -> None:
    assert check_call(words)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_every_piece_of_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


def run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from burst.harness.data.randomness import kept_generators

    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    with kept_generators():
        exec(compile(block.text, str(block), "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    "block", [each for each in blocks("python") if each.kind == "python run"], ids=str
)
def test_what_is_marked_to_run_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(block, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "block", [each for each in blocks("python") if each.kind == "python trial"], ids=str
)
def test_a_whole_trial_trains(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burst.harness import PyTorchTrial, Trainer, pytorch_init
    from burst.harness.data.randomness import kept_generators

    namespace = run(block, tmp_path, monkeypatch)
    (trial,) = [each for each in namespace.values() if isinstance(each, type)
                and issubclass(each, PyTorchTrial) and each is not PyTorchTrial]  # fmt: skip
    with (
        kept_generators(),
        warnings.catch_warnings(),
        pytorch_init(hparams={"lr": 0.01, "batch_size": 32}, seed=1) as context,
    ):
        outcome = Trainer(trial(context), context).fit(max_length="4ba")
    assert outcome.batches == 4


def field_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of every field of an experiment file; of unions, those of every member."""
    for name, field in model.model_fields.items():
        written = field.alias or name
        yield prefix + written
        for below in nested(field.annotation):
            yield from field_paths(below, f"{prefix}{written}.")


def nested(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation.__name__ != "Length":
            yield annotation
        return
    for part in getattr(annotation, "__args__", ()):
        yield from nested(part)


@pytest.mark.parametrize("path", sorted(set(field_paths(ExperimentConfig))))
def test_every_field_of_an_experiment_is_described(path: str) -> None:
    """By its last name, and within code: `minval`, `checkpoints.keep.trial_best`."""
    page = pages()["docs/experiment-files.md"]
    code = " ".join(
        [*re.findall(r"`([^`\n]+)`", page), *(match[2] for match in FENCE.finditer(page))]
    )
    assert re.search(rf"(?<!\w){re.escape(path.rpartition('.')[2])}(?!\w)", code)


def test_every_name_of_the_harness_is_in_a_page() -> None:
    import burst.harness

    told = "".join(pages()[f"docs/{page}.md"] for page in ("trials", "scripts", "data"))
    assert [n for n in burst.harness.__all__ if not re.search(rf"\b{n}\b", told)] == []
