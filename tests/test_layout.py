"""The house: where things may lie, which way the arrows point, and how big a room may grow."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("core", "harness", "runner", "infra", "cli")
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_is_a_development_folder_and_in_the_wheel() -> None:
    build = PROJECT["tool"]["hatch"]["build"]
    assert build["dev-mode-dirs"] == list(ROOMS)
    assert build["targets"]["wheel"]["packages"] == [f"{room}/burst" for room in ROOMS]


def test_burst_is_a_namespace_so_no_room_has_an_init_of_its_own() -> None:
    assert [room for room in ROOMS if (ROOT / room / "burst" / "__init__.py").exists()] == []


def test_every_room_holds_exactly_its_own_package_and_is_typed() -> None:
    for room in ROOMS:
        inside = [p.name for p in (ROOT / room / "burst").iterdir() if p.name != "__pycache__"]
        assert inside == [room]
        assert (ROOT / room / "burst" / room / "py.typed").exists()


def test_no_loose_module_lies_beside_a_package() -> None:
    loose = {_relative(p) for room in ROOMS for p in (ROOT / room).glob("*.py")}
    assert loose <= {"infra/__main__.py"}


def test_coverage_sees_namespace_packages() -> None:
    assert PROJECT["tool"]["coverage"]["run"]["include_namespace_packages"] is True


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in _sources() if path.parent.parent != ROOT}
    assert [_relative(f) for f in folders if not (f / "__init__.py").exists()] == []


OF_THE_USER = {
    "core/burst/core/chance.py",
    "harness/burst/harness/checkpoints/codec/rng.py",
    "harness/burst/harness/data/randomness.py",
    "harness/burst/harness/data/seeding.py",
    "harness/burst/harness/determinism.py",
    "harness/burst/harness/transformers/trainer/loading/generators.py",
}
"""What may touch the generators of a trial: it seeds, saves and restores them."""


def test_nothing_else_draws_from_the_generators_that_a_trial_restores() -> None:
    """Generators of one's own (`random.Random(seed)`) are no harm."""
    drawing = {
        _relative(path)
        for path in _sources()
        if "/testing/" not in str(path)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and node.module == "random")
        or (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "random"
            and node.attr not in ("Random", "SystemRandom")
        )
    }
    assert drawing <= OF_THE_USER


def test_layers_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_is_too_big() -> None:
    lines = {_relative(p): p.read_text().count("\n") for p in _sources()}
    assert {p: n for p, n in lines.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{_relative(path)}:{node.name}"
        for path in _sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert too_long == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [_relative(p) for p in _sources() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []


def test_nothing_is_ever_pickled() -> None:
    picklers = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    assert [_relative(p) for p in _sources() if _imports(p) & picklers] == []


def _imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    from_ = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
    return {name.split(".")[0] for name in plain | from_}


def test_core_needs_neither_torch_nor_boto3_nor_pulumi_to_import() -> None:
    modules = [
        ".".join(p.relative_to(ROOT / "core").with_suffix("").parts).removesuffix(".__init__")
        for p in sorted((ROOT / "core" / "burst" / "core").rglob("*.py"))
        if "testing" not in p.parts
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(sorted({'torch', 'boto3', 'pulumi', 's3fs', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_path_of_a_machine_is_in_the_tree() -> None:
    listed = subprocess.run(
        ["git", "grep", "-nIE", r"(/work/|/farm/|/root/)", "--", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in listed.stdout.splitlines() if "tests/test_layout.py" not in line]
    assert lines == []
