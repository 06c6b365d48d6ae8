"""One cell's updates: the loss, the teacher, the schedule, and the data it sees."""

import math

import pytest
import torch
import torch.nn.functional as F
from by_hand import parts

from linvit.catalog import OPERATORS
from linvit.distill import AttentionTap
from linvit.errors import LinvitError
from linvit.train.student import Diverged
from tiny_study import RECIPE, edit, one_cell


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("tap", ["post", "pre"])
@pytest.mark.parametrize("operator", ["relu", "ttt"])
def test_lambda_weighs_the_distance(tiny, operator, tap):
    """total = cross-entropy + lambda * mean over blocks of the MSE, all recomputed here."""
    spec = one_cell(operator, "mlpcopy", "output", tap=tap, label_smoothing=0.1)
    student, stream, teacher = parts(spec)
    images, labels = stream.batch(0)
    taught, taps = teacher.outputs(images)[0], AttentionTap(student.model.train(), tap)
    with torch.no_grad():
        logits = student.model(images)
    cross_entropy = F.cross_entropy(logits, labels, label_smoothing=0.1)
    distances = [F.mse_loss(s, t) for s, t in zip(taps.take(), taught, strict=True)]
    distance = torch.stack(distances).mean()
    student.train_step(images, labels, teacher.outputs(images))
    total, ce, plain, relative = student.losses[-1]
    torch.testing.assert_close(ce, cross_entropy)
    torch.testing.assert_close(plain, distance)
    torch.testing.assert_close(total, cross_entropy + 10 * distance)
    torch.testing.assert_close(relative, distance / taught.square().mean())


def test_without_distillation_the_loss_is_the_cross_entropy(tiny):
    total, ce = parts(one_cell()).step()
    assert total == ce


def test_the_teacher_is_no_part_of_the_student_and_never_changes(tiny):
    hand = parts(one_cell("relu", "fullcopy", "output"))
    student, teacher = hand.student, hand.teacher
    before = weights(teacher.model)
    optimised = {id(p) for group in student.optimizer.param_groups for p in group["params"]}
    assert optimised == {id(p) for p in student.model.parameters()}
    for parameter in teacher.model.parameters():
        assert id(parameter) not in optimised
        assert parameter.data_ptr() not in {p.data_ptr() for p in student.parameters}
    assert not any("teacher" in name for name in student.tensors())
    hand.step()
    assert not any(module.training for module in teacher.model.modules())
    assert all(parameter.grad is None for parameter in teacher.model.parameters())
    assert all(torch.equal(v, before[n]) for n, v in teacher.model.state_dict().items())


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_parameter_is_trained(tiny, operator):
    hand = parts(one_cell(operator, "fullcopy", "output"))
    before = weights(hand.student.model)
    hand.step()
    same = [n for n, v in hand.student.model.state_dict().items() if torch.equal(v, before[n])]
    assert same == []


def test_the_schedule_warms_up_from_zero_and_falls_to_min_lr(tiny):
    student = parts(one_cell(epochs=4, warmup_epochs=1, eval_every=4)).student
    rates = []
    for step in range(student.total_steps):
        student.scheduler.step_update(step)
        rates.append(student.optimizer.param_groups[0]["lr"])
    high, low = RECIPE["lr"], RECIPE["min_lr"]
    cosine = [low + (high - low) * (1 + math.cos(math.pi * step / 12)) / 2 for step in range(3, 12)]
    assert rates == pytest.approx([0, high / 3, 2 * high / 3, *cosine])


def test_biases_norms_and_embeddings_do_not_decay(tiny):
    student = parts(one_cell("mhla")).student
    names = {id(parameter): name for name, parameter in student.model.named_parameters()}
    for group in student.optimizer.param_groups:
        for parameter in group["params"]:
            free = parameter.ndim < 2 or names[id(parameter)] in ("pos_embed", "cls_token")
            assert (group["weight_decay"] == 0) == free, names[id(parameter)]


def test_gradients_are_clipped(tiny):
    student = parts(one_cell(clip_grad=1e-3)).student
    seen = []
    student.optimizer.register_step_pre_hook(
        lambda *_: seen.append(torch.stack([p.grad.norm() for p in student.parameters]).norm())
    )
    student.train_step(*student.stream.batch(0), None)
    assert seen[0].item() == pytest.approx(1e-3, rel=1e-3)


def test_batches_are_functions_of_the_step_alone(tiny):
    stream = parts(one_cell(batch_size=8)).stream
    first = [stream.batch(step) for step in (0, 5, 2)]
    again = [stream.batch(step) for step in (2, 5, 0)][::-1]
    for (images, labels), (same, too) in zip(first, again, strict=True):
        assert torch.equal(images, same)
        assert torch.equal(labels, too)
    assert stream.steps_per_epoch == 3  # 30 images, the last 6 of an epoch are dropped


def test_an_epoch_shows_every_image_once_and_epochs_differ(tiny):
    spec = one_cell(view={"mean": [0.0], "std": [1.0]})
    stream = parts(spec).stream
    epochs = []
    for epoch in range(2):
        batches = [stream.batch(3 * epoch + i)[0] for i in range(3)]
        epochs.append(torch.cat(batches).flatten(1))
    stored = stream.view.eval(stream.images).flatten(1)
    for seen in epochs:
        assert torch.equal(seen.unique(dim=0), stored.unique(dim=0))
    assert not torch.equal(*epochs)


def test_too_few_images_for_a_batch_are_refused(tiny):
    with pytest.raises(LinvitError, match="30 training images, fewer than recipe batch_size 31"):
        parts(edit(one_cell(), "recipe", batch_size=31))


def test_a_validation_point_averages_its_interval(tiny):
    hand = parts(one_cell("relu", "random", "output"))
    steps = [hand.step().double() for _ in range(3)]
    assert hand.student.at_validation_point()
    hand.student.validate()
    (point,) = hand.student.history
    names = ("train_loss", "train_ce", "distill", "distill_relative")
    assert [point[name] for name in names] == torch.stack(steps).mean(0).tolist()
    assert (point["epoch"], point["step"], point["lr"]) == (1, 3, pytest.approx(0.007525))
    assert hand.student.losses == []
    hand.step()
    assert not hand.student.at_validation_point()


def test_a_loss_that_is_not_finite_is_a_divergence_at_its_step(tiny):
    hand = parts(one_cell())
    hand.step()
    hand.student.model.head.weight.data.fill_(torch.nan)
    hand.step()
    hand.step()
    with pytest.raises(Diverged) as diverged:
        hand.student.validate()
    assert diverged.value.step == 1


def test_weights_that_the_last_update_ruined_are_a_divergence(tiny):
    hand = parts(one_cell())
    for _ in range(3):
        hand.step()
    hand.student.model.head.weight.data.fill_(torch.inf)
    with pytest.raises(Diverged) as diverged:
        hand.student.validate()
    assert diverged.value.step == 3
    assert hand.student.history == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_restore_is_the_inverse_of_tensors(tiny, operator):
    spec = one_cell(operator, "mlpcopy", "output", drop_path=0.2)
    hand, fresh = parts(spec), parts(spec)
    for _ in range(2):
        hand.step()
    saved = {name: value.clone() for name, value in hand.student.tensors().items()}
    fresh.student.restore(2, saved, {"history": []})
    for one in (hand, fresh):
        one.step()
    mine, theirs = hand.student.tensors(), fresh.student.tensors()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())


def test_drop_path_does_not_depend_on_the_global_generator(tiny):
    spec, outcomes = one_cell(drop_path=0.4), []
    for seed in (0, 1):
        hand = parts(spec)
        torch.manual_seed(seed)
        hand.step()
        outcomes.append(torch.stack([hand.step(), hand.step()]))
    assert torch.equal(*outcomes)
