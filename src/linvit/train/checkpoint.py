"""Checkpoints of one cell: safetensors plus a JSON that carries its digest and commits it."""

import hashlib
import json
from pathlib import Path

import safetensors.torch
from torch import Tensor

from linvit.files import atomic_write_bytes, atomic_write_json
from linvit.say import say

KEPT = 2


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], state: dict) -> None:
    """Write the checkpoint of `step`; it counts from the moment its JSON has appeared."""
    data = safetensors.torch.save(tensors)
    atomic_write_bytes(folder / f"{step:08d}.safetensors", data)
    digest = hashlib.sha256(data).hexdigest()
    body = {"step": step, "sha256": digest, "state": state}
    atomic_write_json(folder / f"{step:08d}.json", {**body, "self": _digest(body)})
    for old in sorted(folder.glob("*.json"))[:-KEPT]:
        old.unlink()
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[int, dict[str, Tensor], dict] | None:
    """The newest checkpoint whose digests hold, as (step, tensors, state); None without one."""
    for path in sorted(folder.glob("*.json"), reverse=True):
        loaded = _load(path)
        if loaded is not None:
            return loaded
        say(f"linvit: checkpoint {path} is damaged and not used")
    return None


def _load(path: Path) -> tuple[int, dict[str, Tensor], dict] | None:
    try:
        body = json.loads(path.read_text())
        expected = body.pop("self")
        data = path.with_suffix(".safetensors").read_bytes()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    if _digest(body) != expected or hashlib.sha256(data).hexdigest() != body["sha256"]:
        return None
    return body["step"], safetensors.torch.load(data), body["state"]


def _digest(body: dict) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
