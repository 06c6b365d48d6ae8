"""kill -9 in mid-run, then the same command again: the numbers of an undisturbed run."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
CLAIMS = "results/nano/claims.md"  # everything up to the verdicts, without the pictures


def training(folder: Path) -> list[int]:
    """Processes of this checkout that train cells."""
    found = subprocess.run(["pgrep", "-f", "linvit train"], capture_output=True, text=True)
    pids = [int(pid) for pid in found.stdout.split()]
    return [pid for pid in pids if _folder(pid) == folder and "python" in _program(pid)]


def _folder(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


def wait_for_training(checkout) -> list[int]:
    """Until some cell of the study has made its first progress; then the trainers' pids."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        pids = training(checkout.folder)
        if pids and list(checkout.folder.glob("results/.store/*/progress.json")):
            return pids
        time.sleep(0.05)
    raise AssertionError("no cell began to train")


def check_equal(checkout, finished) -> None:
    assert checkout.results("cells/**/metrics.json") == finished.results("cells/**/metrics.json")
    assert checkout.results("cells/**/test.json") == finished.results("cells/**/test.json")
    assert checkout.results("claims.csv") == finished.results("claims.csv")


def test_killed_cell(fresh, finished):
    process = fresh.start(CLAIMS)
    for pid in wait_for_training(fresh):
        os.kill(pid, signal.SIGKILL)
    output = process.communicate(timeout=600)[0]
    assert process.returncode != 0, output
    fresh.run(CLAIMS)
    check_equal(fresh, finished)


def test_killed_snakemake(fresh, finished):
    process = fresh.start(CLAIMS)
    wait_for_training(fresh)
    process.kill()
    process.communicate(timeout=600)
    fresh.run(CLAIMS, "--unlock")
    fresh.run(CLAIMS)
    check_equal(fresh, finished)


def test_killed_process_group(fresh, finished):
    process = fresh.start(CLAIMS)
    wait_for_training(fresh)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=600)
    fresh.run(CLAIMS, "--unlock")
    fresh.run(CLAIMS)
    check_equal(fresh, finished)
