"""`linvit` as a command: what it lists, what it refuses, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from linvit import __version__, cli
from linvit.cli import main
from linvit.errors import DISK_FULL, OUT_OF_MEMORY, REQUEUE, USAGE, Interrupted, LinvitError
from tiny_study import config

PATH = "digits-30/nano/relu/random/none/scratch/seed0"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the tiny study as its config.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(yaml.safe_dump(config()))
    return tmp_path


def listed(capsys, *words: str) -> list[str]:
    assert main(["cells", *words]) == 0
    return capsys.readouterr().out.splitlines()


def complaint(capsys, *words: str) -> str:
    """The one line on standard error of a command that is refused."""
    assert main(list(words)) == USAGE == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("linvit: ")
    return line


def test_cells_are_listed_one_per_line(here, capsys):
    lines = listed(capsys)
    assert len(lines) == len(set(lines)) == 48
    assert lines == sorted(lines)
    assert PATH in lines


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["operator=relu"], 6),
        (["operator=relu,elu"], 12),
        (["operator=relu", "operator=elu"], 12),
        (["operator=relu", "init=random,fullcopy", "distill=none"], 2),
        (["lambda=10"], 24),
        (["lambda=none", "source=scratch"], 8),
        ([PATH], 1),
        ([PATH, "digits-30/nano/elu/random/none/scratch/seed0"], 2),
    ],
)
def test_filters(here, capsys, filters, count):
    assert len(listed(capsys, *filters)) == count


def test_cells_as_json(here, capsys):
    (line,) = listed(capsys, "--json", PATH)
    assert json.loads(line) == {
        **{"dataset": "digits-30", "size": "nano", "operator": "relu", "init": "random"},
        **{"distill": "none", "lambda": None, "source": None, "seed": 0, "path": PATH},
    }
    assert len(listed(capsys, "--json")) == 48


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["cells", "operator=rellu"], "did you mean 'relu'"),
        (["cells", "operators=relu"], "did you mean 'operator'"),
        (["cells", "operator="], "operator"),
        (["cells", "a/b/c"], "'a/b/c' is no cell of this study; `linvit cells` lists them"),
        (["train", "digits-30/nano/relu"], "is no cell of this study"),
        (["forget", "operator=none"], "'none'"),
        (["train", "absent.json"], "absent.json is missing"),
        (["evaluate", "absent.json"], "absent.json is missing"),
        (["cells", "--study", "absent.yaml"], "absent.yaml: cannot read the study"),
        (["status", "--study", "."], "cannot read the study"),
        (["data", "imagenet"], "'imagenet' is not known"),
        (["pretrain", "absent.json", "--out", "x.safetensors"], "absent.json is missing"),
        (["adopt", "mine", "--out", "x.safetensors"], "'mine' is no source that names a file"),
        (["adopt", "own", "--out", "x.safetensors"], "own.safetensors cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_code_2(here, capsys, words, reason):
    assert reason in complaint(capsys, *words)


@pytest.mark.parametrize(
    "words",
    [[], ["trian"], ["train"], ["train", PATH, "--checkpoint-seconds", "soon"], ["cells", "--x"]],
)
def test_bad_usage_is_code_2(here, capsys, words):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: linvit" in capsys.readouterr().err


def test_a_damaged_study_is_one_line(here, capsys):
    Path("config.yaml").write_text("study: [")
    assert "config.yaml:1: not valid YAML" in complaint(capsys, "cells")


def test_help_and_version(capsys):
    for words in (["--help"], ["train", "--help"], ["cells", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (LinvitError("x is wrong; right it"), USAGE, "linvit: x is wrong; right it\n"),
        (Interrupted("SIGTERM"), REQUEUE, "linvit: stopped by SIGTERM; all is checkpointed"),
        (MemoryError("8 GB"), OUT_OF_MEMORY, "linvit: out of memory (8 GB); use a smaller pack"),
        (PermissionError(13, "Permission denied", "results/x"), USAGE, "results/x: Permission"),
    ],
)
def test_every_end_has_its_code_and_one_line(here, monkeypatch, capsys, error, code, text):
    def fail(options):
        raise error

    monkeypatch.setattr(cli, "_cells", fail)
    assert main(["cells"]) == code
    captured = capsys.readouterr()
    (line,) = (captured.out + captured.err).splitlines(keepends=True)
    assert text in line


def test_a_full_disk_has_its_code(here, monkeypatch, capsys):
    def fail(options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "_cells", fail)
    with pytest.raises(SystemExit) as stopped:
        main(["cells"])
    assert stopped.value.code == DISK_FULL
    assert "no space left" in capsys.readouterr().out


def test_a_study_can_be_trained_by_axes_and_by_path(tiny, capsys):
    Path("config.yaml").write_text(yaml.safe_dump(config()))
    assert main(["train", "operator=relu", "init=random", "distill=none"]) == 0
    metrics = Path("results/tiny/cells", PATH, "metrics.json")
    assert json.loads(metrics.read_text())["status"] == "ok"
    assert main(["evaluate", PATH]) == 0
    assert (metrics.parent / "test.json").exists()
    capsys.readouterr()
    assert main(["forget", PATH]) == 0
    assert capsys.readouterr().out == f"forgot {metrics.parent}\n"
    assert not metrics.exists()


def start(*words: str) -> subprocess.Popen:
    command, pipe = [sys.executable, "-m", "linvit.cli", *words], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def test_cells_are_listed_without_torch(here):
    code = "import sys, linvit.cli as c; c.main(['cells']); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False"


def test_a_reader_that_leaves_is_no_error(here):
    """`linvit cells | head -n 1`."""
    process = start("cells", "--json")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_the_exit_code_of_a_real_process(here):
    out, err = (process := start("cells", "operator=rellu")).communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("linvit: ")
