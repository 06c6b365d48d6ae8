"""Disks that are full or read-only, memory that ends, devices that are not there."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest
import torch

from linvit.cli import main
from linvit.errors import DISK_FULL, OUT_OF_MEMORY, USAGE
from linvit.train.student import Student
from linvit.train.train import result_folder, train
from tiny_study import (
    forget_all,
    one_cell,
    outcome,
)


def temporary_files() -> list[Path]:
    return [path for path in Path("results").rglob(".*") if path.is_file()]


def fill_disk_after(monkeypatch, writes: int) -> None:
    """From then on no file reaches the disk; folders do."""
    done, real = [], os.fsync

    def full(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            done.append(descriptor)
            if len(done) > writes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)


@pytest.mark.parametrize(
    ("seconds", "writes"),
    # checkpoints after every step; or progress twice, metrics, record, weights, the seal, and the
    # two declared files
    [*(("0", writes) for writes in range(3)), *(("1000", writes) for writes in range(8))],
)
def test_a_full_disk_ends_with_its_code_and_nothing_half_written(
    tiny, monkeypatch, capsys, seconds, writes
):
    spec = one_cell()
    train([spec])
    expected = outcome(spec)
    forget_all()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        fill_disk_after(patch, writes)
        with pytest.raises(SystemExit) as stopped:
            main(["train", str(spec), "--checkpoint-seconds", seconds])
    assert stopped.value.code == DISK_FULL == 74
    assert sum("no space left" in line for line in capsys.readouterr().out.splitlines()) == 1
    assert temporary_files() == []
    assert not (result_folder(spec) / "metrics.json").exists()
    assert main(["train", str(spec)]) == 0
    assert outcome(spec) == expected


def refuse_writes_below(monkeypatch, folder: str) -> None:
    real = tempfile.mkstemp

    def mkstemp(dir, **options):
        if str(dir).startswith(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))
        return real(dir=dir, **options)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)


def test_a_folder_that_cannot_be_written_is_one_complaint(tiny, monkeypatch, capsys):
    def read_only(self, *args, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    spec = one_cell()
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert main(["train", str(spec)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "results/.store/" in line
    assert "Read-only file system; give yourself the right to write" in line


def test_results_that_cannot_be_declared_are_kept_in_the_store(tiny, monkeypatch, steps, capsys):
    spec = one_cell()
    with monkeypatch.context() as patch:
        refuse_writes_below(patch, "results/tiny/cells")
        assert main(["train", str(spec)]) == 1
    assert "results/tiny/cells" in capsys.readouterr().out
    assert main(["train", str(spec)]) == 0
    assert len(steps) == 6


def test_a_store_that_becomes_read_only_fails_without_a_second_error(tiny, monkeypatch, capsys):
    refuse_writes_below(monkeypatch, "results/.store")
    assert main(["train", str(one_cell())]) == 1
    assert "Read-only file system" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["train_step", "__init__"])
def test_out_of_memory_has_its_code_and_one_line(tiny, monkeypatch, capsys, place):
    def exhaust(self, *args):
        raise RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory: 8 GB\nframe #0")

    monkeypatch.setattr(Student, place, exhaust)
    assert main(["train", str(one_cell())]) == OUT_OF_MEMORY == 71
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("linvit: out of memory ([enforce]")
    assert line.endswith("use a smaller pack or batch_size")


def test_cuda_is_never_replaced_by_a_cpu(tiny, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["train", str(one_cell(device="cuda-bf16"))]) == USAGE
    assert "device 'cuda-bf16' needs a GPU and torch sees none" in capsys.readouterr().err


def test_cpu_cells_run_on_one_thread(tiny):
    torch.set_num_threads(2)
    train([one_cell()])
    assert torch.get_num_threads() == 1
