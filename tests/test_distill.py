"""Output distillation: the tensor that is matched, the loss, and a teacher that stays as it is."""

import pytest
import torch

from linvit import models
from linvit.catalog import OPERATORS
from linvit.distill import AttentionTap, Teacher, output_matching
from linvit.transfer import initialise
from tiny_study import NANO, draw_source

TOKENS, WIDTH, DEPTH = 17, NANO["embed_dim"], NANO["depth"]


def images(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def make(operator: str = "softmax"):
    model = models.create(operator, **NANO, num_classes=10)
    initialise(model, "fullcopy", 0, draw_source())
    return model


def test_output_matching_by_hand():
    student = torch.tensor([[[[1.0, 2.0]]], [[[0.0, 4.0]]]])  # 2 blocks, 1 image, 1 token, width 2
    teacher = torch.tensor([[[[1.0, 0.0]]], [[[3.0, 4.0]]]])
    # blocks: (0 + 4) / 2 = 2 and (9 + 0) / 2 = 4.5; their mean: 3.25
    assert output_matching(student, teacher).item() == 3.25


def test_output_matching_is_the_mean_over_blocks_of_means():
    generator = torch.Generator().manual_seed(1)
    student, teacher = torch.randn(2, 4, 3, 5, 6, generator=generator)
    by_block = [((student[b] - teacher[b]) ** 2).mean() for b in range(4)]
    torch.testing.assert_close(output_matching(student, teacher), torch.stack(by_block).mean())


@pytest.mark.parametrize("operator", OPERATORS)
def test_post_is_what_the_block_adds(operator):
    model, seen = make(operator), []
    tap = AttentionTap(model, "post")
    for block in model.blocks:
        block.drop_path1.register_forward_hook(lambda m, inputs, out: seen.append(inputs[0]))
    model(images())
    outputs = tap.take()
    assert outputs.shape == (DEPTH, 3, TOKENS, WIDTH)
    assert outputs.dtype == torch.float32
    assert torch.equal(outputs, torch.stack(seen))


@pytest.mark.parametrize("operator", OPERATORS)
def test_pre_is_the_first_channels_of_the_merged_heads(operator):
    model, seen = make(operator), []
    tap = AttentionTap(model, "pre")
    for block in model.blocks:
        block.norm1.register_forward_hook(lambda m, i, out, b=block: seen.append(b.attn.mix(out)))
    model(images())
    outputs = tap.take()
    assert outputs.shape == (DEPTH, 3, TOKENS, WIDTH)
    wide = 8 if operator == "ttt" else 0
    assert seen[0].shape == (3, TOKENS, WIDTH + wide)
    torch.testing.assert_close(outputs, torch.stack(seen)[..., :WIDTH])


@pytest.mark.parametrize("tap", ["pre", "post"])
def test_the_loss_reaches_a_student_through_its_tap(tap):
    student, teacher = make("ttt"), Teacher(make(), tap)
    taken = AttentionTap(student, tap)
    student(images())
    output_matching(taken.take(), teacher.outputs(images())[0]).backward()
    assert student.blocks[0].attn.qkv.weight.grad.abs().sum() > 0
    assert student.patch_embed.proj.weight.grad.abs().sum() > 0
    assert student.head.weight.grad is None
    proj = student.blocks[-1].attn.proj.weight.grad
    assert (proj is None) == (tap == "pre")


def test_a_tap_holds_one_forward_and_nothing_of_evaluation():
    model = make("relu")
    tap = AttentionTap(model, "post")
    model(images(2))
    model(images(3))
    assert len(tap.outputs) == DEPTH
    assert tap.take().shape[1] == 3
    assert tap.outputs == [None] * DEPTH
    with torch.inference_mode():
        model(images())
    assert tap.outputs == [None] * DEPTH


def test_a_teacher_is_frozen():
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    teacher = Teacher(model.train(), "post")
    outputs, mean_square = teacher.outputs(images())
    assert not outputs.requires_grad
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert mean_square.item() == pytest.approx(outputs.square().mean().item())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert teacher.forwards == 1


def test_a_teacher_without_head_gives_the_same_outputs():
    headless = models.create("softmax", **NANO, num_classes=0)
    headless.load_state_dict({k: v for k, v in draw_source().items() if "head" not in k})
    whole = models.create("softmax", **NANO, num_classes=10)
    whole.load_state_dict(draw_source())
    outputs = [Teacher(model, "post").outputs(images())[0] for model in (headless, whole)]
    assert torch.equal(*outputs)
