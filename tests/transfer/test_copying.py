"""What each init takes over, what its ledger says, and what it refuses."""

import pytest
import torch
from students import make, state, student

from linvit.catalog import COMPONENTS, INITS, OPERATORS
from linvit.distill import AttentionTap, Teacher, output_matching
from linvit.errors import LinvitError
from linvit.transfer import initialise
from linvit.transfer.partition import component, partition, shared_slices
from tiny_study import draw_source

COPYING = [name for name, init in INITS.items() if init.needs_source]
STATUSES = {"copied", "partly", "resized", "fresh"}


def images(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_init_changes_exactly_its_components(operator, init):
    source, (model, _) = draw_source(), student(operator, init)
    random, where = state(student(operator)[0]), shared_slices(model)
    for name, group in partition(model).items():
        expected = random[name].clone()
        if group in INITS[init].components:
            expected[where.get(name, ...)] = source[name]
            assert not torch.equal(expected, random[name])
        assert torch.equal(model.get_parameter(name), expected), name


@pytest.mark.parametrize("operator", OPERATORS)
def test_fullcopy_is_mlpcopy_plus_copy(operator):
    arms = {init: state(student(operator, init)[0]) for init in ("copy", "mlpcopy", "fullcopy")}
    for name, value in arms["fullcopy"].items():
        part = "copy" if component(name) == "attn" else "mlpcopy"
        assert torch.equal(value, arms[part][name]), name


def test_no_init_takes_head_or_extra():
    assert all(not {"head", "extra"} & init.components for init in INITS.values())
    assert INITS["fullcopy"].components == set(COMPONENTS) - {"head", "extra"}


def test_fullcopy_of_a_softmax_student_is_the_teacher():
    source, (model, _) = draw_source(), student("softmax", "fullcopy")
    teacher_model = make("softmax")
    teacher_model.load_state_dict(source)
    teacher, tap = Teacher(teacher_model, "post"), AttentionTap(model, "post")
    target, _ = teacher.outputs(images())
    features = model.forward_features(images())
    assert torch.equal(features, teacher_model.forward_features(images()))
    assert output_matching(tap.take(), target).item() == 0


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_ledger_is_complete(operator, init):
    source, (model, ledger) = draw_source(), student(operator, init)
    groups = partition(model)
    assert [line.key for line in ledger.lines] == list(groups)
    used = {line.key for line in ledger.lines if line.status != "fresh"}
    assert used | set(ledger.skipped) == set(source)
    assert not used & set(ledger.skipped)
    for line in ledger.lines:
        assert line.component == groups[line.key]
        assert line.status in STATUSES
        assert line.parameters == model.get_parameter(line.key).numel()
        assert line.norm_after == model.get_parameter(line.key).norm().item()
        assert (line.norm_before == line.norm_after) == (line.status == "fresh")
        assert line.reason or line.status == "copied"
    assert all(reason for reason in ledger.skipped.values())


def test_the_summary_counts_parameters():
    model, ledger = student("ttt", "fullcopy")
    summary = ledger.summary()
    total = sum(parameter.numel() for parameter in model.parameters())
    assert sum(summary[status] for status in STATUSES) == total
    by_component = summary["by_component"]
    assert sum(sum(counts.values()) for counts in by_component.values()) == total
    attention = sum(line.parameters for line in ledger.lines if line.component == "attn")
    proj_bias = 2 * 16
    assert by_component["attn"] == {"partly": attention - proj_bias, "copied": proj_bias}
    assert set(by_component["head"]) == set(by_component["extra"]) == {"fresh"}
    assert summary["skipped"] == 2  # weight and bias of the source's head


@pytest.mark.parametrize("operator", OPERATORS)
def test_partly_is_what_the_operator_enlarges(operator):
    model, ledger = student(operator, "copy")
    partly = {line.key for line in ledger.lines if line.status == "partly"}
    assert partly == set(shared_slices(model))
    assert bool(partly) == (operator == "ttt")


def test_position_embeddings_of_another_grid_are_resized():
    source = {k: v.clone() for k, v in make("softmax", img_size=12).state_dict().items()}
    source["pos_embed"][:, 1:] = 0.5  # constant over the grid: so it stays, whatever the filter
    model, ledger = student("relu", "mlpcopy", source=source)
    (line,) = (line for line in ledger.lines if line.status == "resized")
    assert line.key == "pos_embed"
    assert "4 x 4" in line.reason
    assert torch.equal(model.pos_embed[:, 0], source["pos_embed"][:, 0])
    torch.testing.assert_close(model.pos_embed[:, 1:], torch.full((1, 16, 16), 0.5))


def without(key):
    return {name: value for name, value in draw_source().items() if name != key}


def damaged(key):
    source = draw_source()
    source[key].view(-1)[3] = torch.nan
    return source


def wider():
    return dict(make("softmax", embed_dim=24).state_dict())


def deeper():
    return dict(make("softmax", depth=3).state_dict())


EXTRA = torch.zeros(16)
BAD_SOURCES = {
    "foreign": (lambda: draw_source() | {"decoder.weight": EXTRA}, "decoder.weight"),
    "of another attention": (
        lambda: draw_source() | {"blocks.0.attn.q_norm.weight": EXTRA},
        "blocks.0.attn.q_norm.weight",
    ),
    "too deep": (deeper, "blocks.2.norm1.weight"),
    "too shallow": (lambda: without("blocks.1.attn.qkv.bias"), "blocks.1.attn.qkv.bias"),
    "no stem": (lambda: without("cls_token"), "cls_token"),
    "nan": (lambda: damaged("blocks.1.mlp.fc2.weight"), "blocks.1.mlp.fc2.weight"),
    "other width": (wider, "cls_token"),
    "no class token": (
        lambda: draw_source() | {"pos_embed": torch.zeros(1, 16, 16)},
        "pos_embed",
    ),
    "no grid": (lambda: draw_source() | {"pos_embed": EXTRA}, "pos_embed"),
}


@pytest.mark.parametrize("operator", ["softmax", "ttt", "mhla"])
@pytest.mark.parametrize("name", BAD_SOURCES)
def test_a_source_that_does_not_fit_is_one_complaint_naming_the_key(operator, name):
    make_source, key = BAD_SOURCES[name]
    with pytest.raises(LinvitError) as error:
        initialise(make(operator), "fullcopy", 0, make_source())
    assert repr(key) in str(error.value)
    assert "\n" not in str(error.value)


def test_other_width_is_named_for_an_enlarged_parameter():
    with pytest.raises(LinvitError, match=r"'blocks\.0\.attn\.qkv\.weight' is \(72, 24\) in"):
        initialise(make("ttt"), "copy", 0, wider())


@pytest.mark.parametrize("init", COPYING)
def test_an_init_that_copies_needs_a_source(init):
    with pytest.raises(LinvitError, match=f"{init!r} copies from a source"):
        initialise(make("relu"), init, 0)


def test_an_unknown_init_is_refused():
    with pytest.raises(LinvitError, match="'mimicry' is unknown; choose one of random, copy"):
        initialise(make("relu"), "mimicry", 0, draw_source())


def test_a_source_in_half_precision_is_copied():
    half = {name: value.half() for name, value in draw_source().items()}
    model, _ = student("relu", "fullcopy", source=half)
    assert model.pos_embed.dtype == torch.float32
    assert torch.equal(model.pos_embed.half(), half["pos_embed"])
