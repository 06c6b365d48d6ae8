"""Results that change without their `numerics` being raised are caught here."""

import copy

import pytest
from pinned import measure, moved, pinned, runs

from linvit import catalog
from linvit.operators.relu import Relu

CURE = "raise numerics in catalog.py and run `python tests/train/pin_numerics.py`"


@pytest.mark.parametrize("name", runs())
def test_losses_are_those_of_these_numerics(tiny, name):
    old, new = pinned().get(name), measure(*runs()[name])
    assert old is not None, f"{name} is not pinned; run `python tests/train/pin_numerics.py`"
    raised = new["numerics"] != old["numerics"]
    assert not raised, f"numerics of {name} differ; run `python tests/train/pin_numerics.py`"
    assert not moved(old, new), f"{name}: {old['losses']} became {new['losses']}; {CURE}"


def test_nothing_is_pinned_that_does_not_run():
    assert pinned().keys() == runs().keys()


def test_every_component_is_pinned():
    names = set(runs())
    assert names >= {f"operator {name}" for name in catalog.OPERATORS}
    assert names >= {f"init {name}" for name in catalog.INITS}
    assert all(f"distill {name} post" in names for name in catalog.DISTILLS if name != "none")


def test_a_small_change_of_an_operator_moves_its_losses(tiny, monkeypatch):
    run = runs()["operator relu"]
    real = Relu.project
    monkeypatch.setattr(Relu, "project", lambda self, x: real(self, x) * 1.01)
    assert moved(pinned()["operator relu"], measure(*run))


def test_rounding_of_another_cpu_does_not_count():
    old = pinned()["operator mhla"]
    new = copy.deepcopy(old)
    new["losses"][2][1] *= 1 + 1e-5
    assert not moved(old, new)
    new["losses"][2][1] *= 1 + 1e-3
    assert moved(old, new)
