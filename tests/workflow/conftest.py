"""A checkout of its own for every end-to-end test, and what a run of Snakemake says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDY = Path("tests/workflow/nano.yaml")
PARTS = ("Snakefile", "config.yaml", "workflow", "src", "envs", "profiles", "tests/workflow")


class Checkout:
    """A copy of the workflow in which a study runs."""

    def __init__(self, folder: Path):
        self.folder = folder
        source = str(folder / "src")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": source}

    @classmethod
    def copy(cls, source: Path, folder: Path, parts: tuple[str, ...] = PARTS) -> "Checkout":
        for part in parts:
            target = folder / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if (source / part).is_symlink():
                target.symlink_to((source / part).readlink())
            elif (source / part).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source / part, target, ignore=ignored)
            else:
                shutil.copy2(source / part, target)
        return cls(folder)

    def command(self, *arguments: str) -> list[str]:
        default = ["--cores", "2", "--configfile", str(STUDY)]
        return ["snakemake", *arguments, *default]

    def start(self, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*arguments), cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str, ok: bool = True) -> str:
        process = self.start(*arguments)
        output = process.communicate(timeout=900)[0]
        assert (process.returncode == 0) == ok, output
        return output

    def linvit(self, *arguments: str) -> str:
        done = subprocess.run(
            ["linvit", *arguments], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs of a dry run by rule, without `all`; empty when nothing is to be done."""
        rows = re.findall(r"^(\w[\w.-]*)\s+(\d+)$", self.run("-n", *arguments), re.MULTILINE)
        return {name: int(count) for name, count in rows if name not in ("all", "total")}

    def study_file(self) -> Path:
        return self.folder / STUDY

    def results(self, pattern: str) -> dict[str, bytes]:
        """Bytes of the study's files by path, for comparison."""
        root = self.folder / "results/nano"
        return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.glob(pattern))}


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Checkout:
    """A study that ran to its end; tests copy it and leave it as it is."""
    checkout = Checkout.copy(ROOT, tmp_path_factory.mktemp("finished"))
    checkout.run()
    return checkout


@pytest.fixture
def again(finished, tmp_path) -> Checkout:
    """A private copy of the finished study, file times included, without its MLflow store, which
    belongs to the folder it was made in."""
    folder = tmp_path / "again"
    ignored = shutil.ignore_patterns("mlflow.db*", "mlart*")
    shutil.copytree(finished.folder, folder, symlinks=True, ignore=ignored)
    return Checkout(folder)


@pytest.fixture
def fresh(tmp_path) -> Checkout:
    return Checkout.copy(ROOT, tmp_path / "fresh")
