"""Attention-output distillation: match what attention gives to the stream, block by block.

total = cross-entropy + lambda * mean over blocks of MSE(student output, teacher output), the MSE
a mean over batch, tokens (class token included) and channels, in fp32. The teacher is the
pre-trained Softmax ViT: frozen, in eval mode, never fine-tuned, on the same augmented images.
"""

import torch
import torch.nn.functional as F
from timm.models import VisionTransformer
from torch import Tensor


class AttentionTap:
    """Collects the attention outputs of all blocks of `model` during a forward.

    Not in inference mode, in which models are evaluated: nobody takes what it would hold.
    tap: "post" is the attention module's output after proj, (B, N, C); "pre" its merged heads
    before proj, of which an operator that widens them contributes its first C channels.
    """

    def __init__(self, model: VisionTransformer, tap: str):
        self.width = model.embed_dim
        self.outputs: list[Tensor | None] = [None] * len(model.blocks)
        for index, block in enumerate(model.blocks):
            if tap == "post":
                block.attn.register_forward_hook(self._after(index))
            else:
                block.attn.proj.register_forward_pre_hook(self._before(index))

    def _after(self, index: int):
        def hook(module, inputs, output):
            self._keep(index, output)

        return hook

    def _before(self, index: int):
        def hook(module, inputs):
            self._keep(index, inputs[0][..., : self.width])

        return hook

    def _keep(self, index: int, output: Tensor) -> None:
        if not torch.is_inference_mode_enabled():
            self.outputs[index] = output

    def take(self) -> Tensor:
        """Outputs of the last forward in fp32, (L, B, N, C); the tap is empty afterwards."""
        outputs, self.outputs = self.outputs, [None] * len(self.outputs)
        return torch.stack(outputs).float()


class Teacher:
    """A frozen Softmax ViT and its attention outputs, kept outside every student's modules."""

    def __init__(self, model: VisionTransformer, tap: str):
        self.model = model.eval().requires_grad_(False)
        self.tap = AttentionTap(self.model, tap)
        self.forwards = 0

    @torch.no_grad()
    def outputs(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Attention outputs (L, B, N, C) for images (B, C_in, S, S), and their mean square ()."""
        self.forwards += 1
        self.model.forward_features(images)
        outputs = self.tap.take()
        return outputs, outputs.square().mean()


def output_matching(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over blocks of the output MSE; both (L, B, N, C), fp32."""
    return F.mse_loss(student, teacher)
