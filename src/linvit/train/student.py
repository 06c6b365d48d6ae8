"""One cell in training: model, optimiser, history, and everything a checkpoint holds."""

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from linvit import models
from linvit.counter import key
from linvit.distill import AttentionTap, output_matching
from linvit.train.device import autocast
from linvit.train.recipe import make_optimizer, make_scheduler
from linvit.train.stream import Stream
from linvit.transfer import initialise

EVAL_BATCH = 250


class Diverged(Exception):
    """The loss stopped being finite; `step` is the first such step."""

    def __init__(self, step: int):
        super().__init__(f"loss is not finite at step {step}")
        self.step = step


class Student:
    """A student of `spec`, stepped by the pack loop.

    Attributes: step (updates done), history (one dict per validation point), losses (per step
    since the last validation point: total, cross-entropy, distillation, relative distillation).
    """

    def __init__(self, spec: dict, stream: Stream, source: dict[str, Tensor] | None):
        self.spec, self.stream = spec, stream
        self.recipe, self.seed = spec["recipe"], spec["cell"]["seed"]
        self.model = build_model(spec)
        self.ledger = initialise(self.model, spec["cell"]["init"], self.seed, source)
        self.model.to(stream.device)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.model, self.recipe)
        self.scheduler = make_scheduler(self.optimizer, self.recipe, stream.steps_per_epoch)
        self.weight = spec["distill"]["lambda"] if spec["distill"] else None
        self.tap = AttentionTap(self.model, spec["distill"]["tap"]) if spec["distill"] else None
        self.total_steps = self.recipe["epochs"] * stream.steps_per_epoch
        self.step, self.history, self.losses = 0, [], []
        self.train_seconds = 0.0

    def train_step(
        self, images: Tensor, labels: Tensor, target: tuple[Tensor, Tensor] | None
    ) -> None:
        """One update; `target` is what `Teacher.outputs` gave for the same images."""
        started = time.perf_counter()
        self.model.train()
        if self.recipe["drop_path"]:
            torch.manual_seed(key(self.seed, "drop_path", self.step))
        self.scheduler.step_update(self.step)
        with autocast(self.spec["device"]):
            logits = self.model(images)
        loss = cross_entropy = F.cross_entropy(
            logits.float(), labels, label_smoothing=self.recipe["label_smoothing"]
        )
        record = [cross_entropy.detach()]
        if self.tap is not None:
            distance = output_matching(self.tap.take(), target[0])
            loss = cross_entropy + self.weight * distance
            record += [distance.detach(), distance.detach() / target[1]]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe["clip_grad"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(torch.stack([loss.detach(), *record]))
        self.step += 1
        self.train_seconds += time.perf_counter() - started

    def at_validation_point(self) -> bool:
        every = self.recipe["eval_every"] * self.stream.steps_per_epoch
        return self.step % every == 0 or self.step == self.total_steps

    def validate(self) -> None:
        """Close an interval: its mean losses and the validation split into `history`.

        Raises:
            Diverged: a loss of the interval, or of the validation split, was not finite.
        """
        losses = torch.stack(self.losses)
        finite = torch.isfinite(losses[:, 0])
        if not finite.all():
            raise Diverged(self.step - len(losses) + int((~finite).nonzero()[0]))
        means = [*losses.double().mean(0).tolist(), None, None]
        val_loss, val_top1 = self.evaluate(self.stream.val_images, self.stream.val_labels)
        self.history.append(
            {
                "epoch": self.step / self.stream.steps_per_epoch,
                "step": self.step,
                "lr": self.optimizer.param_groups[0]["lr"],
                **dict(
                    zip(
                        ("train_loss", "train_ce", "distill", "distill_relative"),
                        means,
                        strict=False,
                    )
                ),
                "val_loss": val_loss,
                "val_top1": val_top1,
            }
        )
        self.losses = []

    def evaluate(self, images: Tensor, labels: Tensor) -> tuple[float, float]:
        """Mean cross-entropy and top-1 (%) on stored pixels, without augmentation.

        Raises:
            Diverged: the last update has left weights with which nothing finite comes out.
        """
        loss, top1 = evaluate(self.model, self.stream.view, images, labels, self.spec["device"])
        if not math.isfinite(loss):
            raise Diverged(self.step)
        return loss, top1

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that the next step depends on."""
        out = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for index, parameter in enumerate(self.parameters):
            for name, value in self.optimizer.state.get(parameter, {}).items():
                out[f"optimizer.{index}.{name}"] = value
        if self.losses:
            out["losses"] = torch.stack(self.losses)
        return {name: value.contiguous() for name, value in out.items()}

    def restore(self, step: int, tensors: dict[str, Tensor], state: dict) -> None:
        """The inverse of `tensors` and `state`."""
        self.model.load_state_dict(
            {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        )
        for index, parameter in enumerate(self.parameters):
            prefix = f"optimizer.{index}."
            self.optimizer.state[parameter] = {
                k.removeprefix(prefix): v.to(parameter.device)  # AdamW is fused: `step` too
                for k, v in tensors.items()
                if k.startswith(prefix)
            }
        self.losses = list(tensors["losses"].to(self.stream.device)) if "losses" in tensors else []
        self.step, self.history = step, state["history"]


def build_model(spec: dict) -> torch.nn.Module:
    """The model of a cell's spec, on the CPU, its parameters not yet drawn."""
    drop_path = spec["recipe"]["drop_path"]
    return models.create(spec["cell"]["operator"], drop_path=drop_path, **spec["model"])


@torch.inference_mode()
def evaluate(model, view, images: Tensor, labels: Tensor, device_class: str) -> tuple[float, float]:
    """Mean cross-entropy and top-1 (%) of `model` on uint8 images (N, H, W[, C])."""
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=labels.device)
    correct = torch.zeros((), dtype=torch.int64, device=labels.device)
    for some, target in zip(images.split(EVAL_BATCH), labels.split(EVAL_BATCH), strict=True):
        with autocast(device_class):
            logits = model(view.eval(some)).float()
        loss += F.cross_entropy(logits, target, reduction="sum").double()
        correct += (logits.argmax(1) == target).sum()
    return loss.item() / len(labels), 100 * correct.item() / len(labels)
