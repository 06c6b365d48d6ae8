"""A study of two grids that tests read, change and break."""

from typing import Any

import yaml

TEXT = """\
study: small
device: cpu-fp32
seeds: [0, 1]

sizes:
  micro: {img_size: 28, in_chans: 1, patch_size: 7, embed_dim: 64, depth: 4, num_heads: 2}
  wide: {img_size: 28, in_chans: 1, patch_size: 7, embed_dim: 96, depth: 4, num_heads: 2}
  fine: {img_size: 28, in_chans: 1, patch_size: 4, embed_dim: 64, depth: 4, num_heads: 2}
  large: {img_size: 56, in_chans: 1, patch_size: 7, embed_dim: 64, depth: 4, num_heads: 2}

sources:
  fashion: {pretrain: {dataset: fashion-source, size: micro, recipe: pretrain, seed: 0}}
  mine: {file: weights/mine.safetensors, size: micro}

data:
  fashion-mnist: /data/fashion

datasets:
  fashion-source: {from: fashion-mnist, train: source}
  mnist-200: {from: mnist-5k, train: fewshot, shots: 20, recipe: fewshot, lambda: 10}
  fashion-500: {from: fashion-mnist, train: fewshot, shots: 50, recipe: fewshot}

recipes:
  pretrain:
    {epochs: 2, batch_size: 250, lr: 1.0e-3, min_lr: 1.0e-5, warmup_epochs: 1, weight_decay: 0.05,
     clip_grad: 1.0, eval_every: 1, view: {mean: [0.286], std: [0.353]}}
  fewshot:
    epochs: 6
    batch_size: 50
    lr: 1.0e-3
    min_lr: 1.0e-5
    warmup_epochs: 1
    weight_decay: 0.05
    clip_grad: 1.0
    drop_path: 0.0
    label_smoothing: 0.0
    eval_every: 3
    view: {mean: [0.286], std: [0.353], shift: 2, hflip: false}

distillation: {tap: post}

grids:
  components:
    purpose: which components to copy
    operator: [softmax, relu, mhla]
    size: [micro]
    dataset: [mnist-200]
    init: [random, mlpcopy]
    distill: [none, output]
    source: [fashion]
  scratch:
    purpose: nothing from a source
    operator: [elu]
    size: [wide]
    dataset: [fashion-500]
    init: [random]
    distill: [none]

keep_models: [scratch]
"""


def small_study(**changes: Any) -> dict[str, Any]:
    """The config as a dict; changes: dotted key, with "__" for the dot -> new value."""
    data = yaml.safe_load(TEXT)
    for key, value in changes.items():
        *parents, last = key.split("__")
        block = data
        for part in parents:
            block = block[part]
        block[last] = value
    return data
