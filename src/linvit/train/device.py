"""Device classes: what a study's `device` key means to torch."""

import contextlib
import ctypes

import torch

from linvit.errors import LinvitError


def torch_device(device_class: str) -> torch.device:
    """Raises LinvitError when cuda is asked for and there is none: never falls back."""
    if device_class == "cpu-fp32":
        keep_freed_memory()
        torch.set_num_threads(1)
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise LinvitError(
            f"device {device_class!r} needs a GPU and torch sees none; run on a GPU node or set "
            "`device: cpu-fp32` in the study"
        )
    return torch.device("cuda")


def autocast(device_class: str) -> contextlib.AbstractContextManager:
    """bf16 autocast for cuda-bf16, nothing for cpu-fp32."""
    if device_class == "cuda-bf16":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def out_of_memory(error: Exception) -> bool:
    """Torch raises a RuntimeError of its own on CPUs and a subclass on GPUs."""
    text = str(error).lower()
    told = "out of memory" in text or "can't allocate memory" in text
    return told or isinstance(error, MemoryError)


@contextlib.contextmanager
def memory_errors():
    """Torch's ways of running out of memory become MemoryError."""
    try:
        yield
    except RuntimeError as error:
        if out_of_memory(error):
            raise MemoryError(str(error).splitlines()[0]) from error
        raise


def keep_freed_memory() -> None:
    """Let glibc reuse large buffers: it would map and zero fresh pages for every activation.

    32 MiB is the largest mmap threshold that glibc accepts.
    """
    mmap_threshold, trim_threshold, top_pad = -3, -1, -2
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 32 * 2**20)
        mallopt(trim_threshold, 2**30)
        mallopt(top_pad, 64 * 2**20)
