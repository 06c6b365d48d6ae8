"""Every operator against vectors made by the published reference implementations."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from linvit.operators import bind
from linvit.operators.windows import initial_mixing

FOLDERS = [Path(__file__).parents[1] / "golden"]
if "LINVIT_GOLDEN" in os.environ:
    FOLDERS.append(Path(os.environ["LINVIT_GOLDEN"]))
VECTORS = sorted(path for folder in FOLDERS for path in folder.glob("*.npz"))

PHI = {"leakyrelu": "leaky_relu"}
RENAMED = {
    "to_qkv": "qkv",
    "to_out.0": "proj",
    "norm": "input_norm",
    "piece_attn.conv.weight": "window_mix",
    "residual.0": "hidden",
    "residual.2": "taps",
}


def arguments(config):
    """Our operator's name and `bind` arguments for a vector."""
    kind = config["op"]
    if kind in ("elu", "relu"):
        return kind, {}
    if kind in ("inline", "inline_full"):
        prefix = int(config["cls"])
        side = round((config["n"] - prefix) ** 0.5)
        phi = config.get("kernel", "identity")
        options = {"phi": PHI.get(phi, phi), "prefix_tokens": prefix, "grid": (side, side)}
        return ("inline" if kind == "inline" else "inline_local"), options
    if kind == "mhla":
        options = {"normalizer": "released", "inner_norm": True, "rms_norm": config["qk_norm"]}
        options |= {"window": config["blk"], "mixing": config["transform"]}
        grid = (config["side"],) * 2
        return "mhla", options | {"prefix_tokens": 0, "grid": grid}
    if kind == "ttt":
        return "ttt", {"prefix_tokens": 0, "grid": (config["h"], config["w"])}
    return "ttt_inherit", {"prefix_tokens": 0, "grid": (config["s"],) * 2}


def rename(name):
    for theirs, ours in RENAMED.items():
        if name == theirs or name.startswith(f"{theirs}."):
            return ours + name[len(theirs) :]
    return name


def weights(arrays, prefix, module):
    """The reference's tensors under our names and in our shapes."""
    found = {
        rename(key.removeprefix(prefix)): torch.from_numpy(arrays[key])
        for key in arrays
        if key.startswith(prefix)
    }
    if "q_norm.weight" in found:
        pair = [found.pop("q_norm.weight"), found.pop("k_norm.weight")]
        found["qk_scale"] = torch.cat(pair)
    parameters = dict(module.named_parameters())
    return {name: found[name].reshape(shape.shape) for name, shape in parameters.items()}


def ungroup(tokens, config):
    """(B, M, t, C), row-major over windows and inside them, to (B, N, C)."""
    if config["op"] != "mhla":
        return tokens
    side, count = config["blk"], config["side"] // config["blk"]
    grouped = tokens.reshape(len(tokens), count, count, side, side, -1)
    return grouped.permute(0, 1, 3, 2, 4, 5).reshape(len(tokens), config["side"] ** 2, -1)


def close(ours, theirs, tolerance, what):
    error = (ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-30)
    assert error < tolerance, f"{what}: relative error {error:.1e}"


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_golden(path, dtype, tolerance):
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    config = json.loads(str(arrays["config"]))
    name, options = arguments(config)
    bias = "w/qkv.bias" in arrays or "w/to_qkv.bias" in arrays
    module = bind(name, **options)(config["dim"], config["heads"], qkv_bias=bias, dtype=dtype)
    module.load_state_dict(weights(arrays, "w/", module))
    x, y, r, gx = (ungroup(torch.from_numpy(arrays[key]), config) for key in ("x", "y", "r", "gx"))
    x = x.to(dtype).requires_grad_()
    out = module(x)
    (out * r.to(dtype)).sum().backward()
    close(out, y, tolerance, "y")
    close(x.grad, gx, tolerance, "gx")
    for key, theirs in weights(arrays, "gw/", module).items():
        close(module.get_parameter(key).grad, theirs, tolerance, f"gradient of {key}")


@pytest.mark.parametrize("path", [path for path in VECTORS if path.stem.startswith("mhla")])
def test_golden_initial_mixing(path):
    with np.load(path, allow_pickle=False) as file:
        config = json.loads(str(file["config"]))
    count = config["side"] // config["blk"]
    ours = initial_mixing((count, count), False, config["transform"], config["exp_sigma"])
    torch.testing.assert_close(ours, torch.tensor(config["W0"]).double(), rtol=0, atol=1e-7)
