"""The rules of the house: one-way imports, safe loading, short code, documents that are true."""

import argparse
import ast
import re
from itertools import chain
from pathlib import Path

import pytest
import yaml

from linvit import catalog, figures
from linvit.cli import parser
from linvit.data.specs import DATASETS
from linvit.study import layout, select, tables

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/linvit"
MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted((ROOT / "workflow/scripts").glob("*.py"))
RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TORCH = {"torch", "torchvision", "timm", "safetensors"}
WITHOUT_TORCH = {"errors", "catalog", "counter", "files", "progress_line", "fingerprint", "store"}
WITHOUT_TORCH |= {"say", "study", "figures", "tracking"}


def short(path):
    return str(path.relative_to(ROOT))


def parse(path):
    return ast.parse(path.read_text(), short(path))


def document(name):
    return (ROOT / "docs" / name).read_text()


def part_of(path):
    """The part of the package that a file belongs to: its folder, or its own name."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def layers():
    """The picture in docs/architecture.md, lowest layer first."""
    picture = document("architecture.md").split("```")[3]
    lines = [line.split("#")[0].replace("/", " ").split() for line in picture.strip().splitlines()]
    return lines[::-1]


def imported(tree):
    """Full names of all that a module imports, wherever it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their direction"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(path):
    names = (name.split(".") for name in imported(parse(path)) if name.startswith("linvit."))
    return {name[1] for name in names} - {part_of(path), "__version__"}


def test_the_picture_has_every_part():
    parts = {part_of(path) for path in MODULES} - {"__init__"}
    assert sorted(chain(*layers())) == sorted(parts)


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_imports_go_one_way(path):
    below = set()
    for layer in layers():
        if part_of(path) in layer:
            break
        below |= set(layer)
    assert parts_imported(path) <= below


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) in WITHOUT_TORCH], ids=short)
def test_studies_need_no_torch(path):
    names = set(imported(parse(path)))
    assert not {name.split(".")[0] for name in names} & TORCH
    assert parts_imported(path) <= WITHOUT_TORCH | {"data"}
    assert all(name.startswith("linvit.data.specs.") for name in names if "linvit.data" in name)


def test_data_specs_need_no_torch():
    names = set(imported(parse(PACKAGE / "data/specs.py")))
    assert {name for name in names if name.startswith("linvit")} == {"linvit.errors.LinvitError"}
    assert not {name.split(".")[0] for name in names} & TORCH


def test_the_command_line_starts_fast():
    """Whatever is heavy is imported inside the command that needs it."""
    top = [n for n in parse(PACKAGE / "cli.py").body if isinstance(n, ast.Import | ast.ImportFrom)]
    ours = {name for name in imported(ast.Module(top, [])) if name.startswith("linvit")}
    assert {name.split(".")[1] for name in ours} == {"__version__", "errors", "say", "store"}


UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.load_all", "yaml.unsafe_load"}
UNSAFE_CALLS |= {"yaml.full_load", "os.system", "os.popen"}


@pytest.mark.parametrize("path", MODULES + SCRIPTS, ids=short)
def test_nothing_loads_or_runs_foreign_code(path):
    tree = parse(path)
    assert not {name.split(".")[0] for name in imported(tree)} & UNSAFE_MODULES
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        assert ast.unparse(call.func) not in UNSAFE_CALLS
        options = {option.arg: ast.unparse(option.value) for option in call.keywords}
        assert options.get("allow_pickle", "False") == "False"
        assert options.get("shell", "False") == "False"


@pytest.mark.parametrize("path", RULES, ids=short)
def test_rules_load_nothing_unsafe(path):
    assert not re.search(r"pickle|\beval\(|\bexec\(|\.load\(", path.read_text())


@pytest.mark.parametrize("path", MODULES + SCRIPTS, ids=short)
def test_code_is_short(path):
    assert len(path.read_text().splitlines()) <= 300
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 50, node.name


def test_the_snakefile_only_names_things():
    assert len((ROOT / "Snakefile").read_text().splitlines()) <= 45


def subcommands():
    action = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return set(action.choices)


@pytest.mark.parametrize("path", RULES, ids=short)
def test_rules_call_real_commands(path):
    text = path.read_text()
    assert set(re.findall(r"\"linvit (\w+)", text)) <= subcommands()
    for script in re.findall(r"workflow/scripts/\w+\.py", text):
        assert (ROOT / script).exists()


def test_documents_name_real_commands():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in DOCUMENTS:
        text = path.read_text()
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
        assert set(re.findall(r"\bmake ([a-z-]+)", code)) <= targets, path
        assert set(re.findall(r"\blinvit ([a-z]+)\b(?!=)", code)) <= subcommands(), path
    assert {"study", "test"} <= set(
        re.findall(r"^make (\w+)", DOCUMENTS[0].read_text(), re.MULTILINE)
    )
    assert "make test" in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_documents_name_real_files(path):
    text = path.read_text()
    links = re.findall(r"(?<!!)\[[^\]]+\]\(([^)#:]+)\)", text)
    named = re.findall(r"`((?:src|workflow|tests|docs|envs)/[\w./-]+)`", text)
    folders = dict.fromkeys(links, path.parent) | dict.fromkeys(named, ROOT)
    missing = [name for name, folder in folders.items() if not (folder / name).exists()]
    assert not [name for name in missing if "NAME" not in name]


def test_every_name_is_documented():
    assert not [n for n in catalog.OPERATORS if f"`{n}`" not in document("operators.md")]
    assert not [n for n in catalog.INITS if f"`{n}`" not in document("architecture.md")]
    assert not [n for n in DATASETS if f"`{n}`" not in document("data.md")]


def test_every_output_is_documented():
    columns = {*select.CELL_COLUMNS, *select.CURVE_COLUMNS, *select.CLAIM_COLUMNS}
    names = {*columns, *layout.TABLES, *layout.FIGURES}
    assert not [name for name in names if f"`{name}`" not in document("files.md")]


def test_targets_are_the_tables_and_figures_there_are():
    assert set(layout.TABLES) == set(tables.TABLES)
    assert set(layout.FIGURES) == set(figures.FIGURES)


def test_the_lock_satisfies_the_project():
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, re.MULTILINE))
    project = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(r"\"([\w-]+)>=([\d.]+)", project)
    assert len(wanted) > 15
    for name, least in wanted:
        assert version(locked[name]) >= version(least), name
    assert all("://" not in line for line in lock.splitlines())


def version(text):
    return [int(part) for part in re.findall(r"\d+", text)]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f'version = "{citation["version"]}"' in (ROOT / "pyproject.toml").read_text()
