import re

import pytest
import yaml
from synthetic import (
    finished,
    judged_again,
    make_study,
    more_grids,
    shipped_claims,
    write_cell,
    write_results,
)

from linvit.errors import LinvitError
from linvit.study import stats
from linvit.study.claims import judge
from linvit.study.contrast import Unit
from linvit.study.declaration import expectation, in_words, load_claims
from linvit.study.freeze import freeze, read_frozen
from linvit.study.select import Block, read_cells, read_claims

CLAIMS = shipped_claims()
DIVERGED = "digits/micro/ttt/copy/none/fashion/seed2"


def opposite(cell):
    """Effects under which every declared claim is false."""
    if cell.operator == "softmax":
        return 80.0
    if cell.distill == "output":
        return {"random": 55.0, "mlpcopy": 60.0, "fullcopy": 70.0}.get(cell.init, 55.0)
    return {"random": 50.0, "copy": 60.0, "mlpcopy": 52.0, "fullcopy": 45.0}.get(cell.init, 50.0)


def flat(cell):
    return 70.0


@pytest.fixture
def study():
    return make_study()


@pytest.fixture
def claims(tmp_path):
    """A copy of the shipped declaration that a test may edit."""
    file = tmp_path / "claims.yaml"
    file.write_text(CLAIMS.read_text())
    return file


def edit(file, change):
    content = yaml.safe_load(file.read_text())
    change(content["claims"])
    file.write_text(yaml.safe_dump(content))


def test_planted_effects_are_supported(study, tmp_path):
    result = finished(tmp_path, study, CLAIMS)
    assert set(result.verdicts().values()) == {"supported"}
    contrast = result.of("mlpcopy-above-both").summary
    assert contrast.low < 15.0 < contrast.high


def test_their_opposites_are_refuted(study, tmp_path):
    assert set(finished(tmp_path, study, CLAIMS, effect=opposite).verdicts().values()) == {
        "refuted"
    }


def test_noise_is_not_resolved(study, tmp_path):
    result = finished(tmp_path, study, CLAIMS, effect=flat, own=12.0)
    assert set(result.verdicts().values()) == {"not resolved"}
    assert "Smallest distance from the threshold" in result.markdown


def test_contrast_is_averaged_within_a_seed(study, tmp_path):
    one = finished(tmp_path, study, CLAIMS).of("fullcopy-above-mlpcopy")
    cells = read_cells(tmp_path / "cells.csv").set_index("path")["test_top1"]
    for seed, value in one.measured.by_seed.items():
        differences = [
            cells[f"{data}/micro/{operator}/fullcopy/none/fashion/seed{seed}"]
            - cells[f"{data}/micro/{operator}/mlpcopy/none/fashion/seed{seed}"]
            for data in ("digits", "clothes")
            for operator in ("relu", "ttt")
        ]
        assert value == pytest.approx(sum(differences) / 4)
    assert len(one.measured.cells) == 2 * 2 * 2 * 5


def test_softmax_arms_are_shared_by_all_operators(study, tmp_path):
    one = finished(tmp_path, study, CLAIMS).of("recipe-not-worse-than-softmax")
    cells = read_cells(tmp_path / "cells.csv").set_index("path")["test_top1"]
    unit = Unit(Block("digits", "micro", "fashion"), "ttt")
    assert one.measured.by_unit[unit][4] == pytest.approx(
        cells["digits/micro/ttt/mlpcopy/output-10/fashion/seed4"]
        - cells["digits/micro/softmax/fullcopy/none/fashion/seed4"]
    )


def test_only_the_lambda_asked_for_enters(tmp_path, claims):
    study = make_study(grids=more_grids())
    edit(claims, lambda entries: entries[5].update({"lambda": 50}))
    result = finished(tmp_path, study, claims)
    used = result.of("mlpcopy-equals-fullcopy-distilled")
    assert "no combination with all arms" in used.measured.reason  # fullcopy has no lambda 50
    paths = result.of("distilled-equals-softmax").measured.cells
    assert {p.split("/")[4] for p in paths if p.startswith("digits")} == {"none", "output-10"}
    assert {p.split("/")[4] for p in paths if p.startswith("clothes")} == {"none", "output-1"}


def test_holm_runs_over_all_claims_and_both_ways(study, tmp_path):
    judged = finished(tmp_path, study, CLAIMS, own=3.0).judged
    for side in ("support", "refute"):
        raw = [getattr(one, f"p_{side}") for one in judged]
        assert [getattr(one, f"holm_{side}") for one in judged] == stats.holm(raw)


def test_diverged_cells_stop_the_test_and_are_named(study, tmp_path):
    result = finished(tmp_path, study, CLAIMS, diverged=(DIVERGED,))
    one = result.of("copy-equals-random")
    assert (one.verdict, one.measured.reason) == ("not resolved", "1 cell(s) diverged")
    assert 2 not in one.measured.by_seed
    assert f"`{DIVERGED} (diverged)`" in result.markdown
    assert result.verdicts()["fullcopy-above-mlpcopy"] == "supported"
    assert len([p for p in result.verdicts().values() if p == "not resolved"]) == 2


def test_untested_claims_still_count_in_the_family(study, tmp_path):
    judged = finished(tmp_path, study, CLAIMS, diverged=(DIVERGED,)).judged
    best = min(judged, key=lambda one: one.p_support)
    assert best.holm_support == pytest.approx(7 * best.p_support)


def test_cells_that_left_the_study_are_missed(study, tmp_path):
    finished(tmp_path, study, CLAIMS)
    result = judged_again(tmp_path, make_study(seeds=[0, 1, 2, 3]), CLAIMS)
    assert set(result.verdicts().values()) == {"not resolved"}
    assert result.of("copy-equals-random").measured.reason == "8 cell(s) missing"
    assert "digits/micro/relu/copy/none/fashion/seed4 (missing)" in result.markdown


def test_added_seeds_make_a_claim_exploratory(study, tmp_path):
    finished(tmp_path, study, CLAIMS)
    wider = make_study(seeds=[0, 1, 2, 3, 4, 5])
    write_results(wider, tmp_path)
    result = judged_again(tmp_path, wider, CLAIMS)
    assert result.of("copy-equals-random").summary.n == 6
    assert all("added or changed" in one.exploratory for one in result.judged)
    assert "exploratory" in result.markdown


def test_another_recipe_makes_a_claim_exploratory(study, tmp_path):
    finished(tmp_path, study, CLAIMS)
    recipe = make_study().config.recipes["r"].model_dump() | {"epochs": 40}
    other = make_study(recipes={"r": recipe})
    write_results(other, tmp_path)
    assert all(one.exploratory for one in judged_again(tmp_path, other, CLAIMS).judged)


def test_kept_models_do_not(study, tmp_path):
    finished(tmp_path, study, CLAIMS)
    keeping = make_study(keep_models=["components"])
    write_results(keeping, tmp_path)
    assert not any(one.exploratory for one in judged_again(tmp_path, keeping, CLAIMS).judged)


def test_a_single_seed_tests_nothing(tmp_path):
    result = finished(tmp_path, make_study(seeds=[3]), CLAIMS)
    assert set(result.verdicts().values()) == {"not resolved"}
    assert "a test needs 2" in result.markdown


def test_a_study_without_the_arms_says_so(tmp_path):
    grids = {"components": more_grids()["components"] | {"init": ["random"], "distill": ["none"]}}
    result = finished(tmp_path, make_study(grids=grids), CLAIMS)
    assert set(result.verdicts().values()) == {"not resolved"}
    assert "plans no combination with all arms" in result.markdown


class TestFreeze:
    def test_follows_the_declaration_until_a_test_number_is_read(self, study, tmp_path, claims):
        first = freeze(claims, study, tmp_path)
        edit(claims, lambda entries: entries[0].update(margin=1.0))
        second = freeze(claims, study, tmp_path)
        assert first["sha256"] != second["sha256"]
        write_cell(study, tmp_path, study.cells()[0], 50.0)
        edit(claims, lambda entries: entries[0].update(margin=3.0))
        assert freeze(claims, study, tmp_path) == second

    def test_outlives_the_deletion_of_the_declared_file(self, study, tmp_path, claims):
        first = freeze(claims, study, tmp_path)
        write_cell(study, tmp_path, study.cells()[0], 50.0)
        (tmp_path / "claims.frozen.json").unlink()
        edit(claims, lambda entries: entries.pop())
        assert freeze(claims, study, tmp_path) == first
        assert read_frozen(tmp_path / "claims.frozen.json") == first

    def test_comes_too_late_after_a_test_number(self, study, tmp_path):
        write_results(study, tmp_path)
        assert freeze(CLAIMS, study, tmp_path)["claims"] == []
        result = judged_again(tmp_path, study, CLAIMS)
        assert all(one.exploratory.startswith("declared after") for one in result.judged)

    def test_edited_by_hand_it_is_refused(self, study, tmp_path):
        freeze(CLAIMS, study, tmp_path)
        file = tmp_path / "claims.frozen.json"
        file.write_text(file.read_text().replace('"margin": 2.0', '"margin": 9.0'))
        with pytest.raises(LinvitError, match="was edited"):
            read_frozen(file)

    def test_same_content_leaves_the_file_alone(self, study, tmp_path):
        freeze(CLAIMS, study, tmp_path)
        before = (tmp_path / "claims.frozen.json").stat().st_mtime_ns
        freeze(CLAIMS, study, tmp_path)
        assert (tmp_path / "claims.frozen.json").stat().st_mtime_ns == before


class TestDeclaredLate:
    def test_a_changed_claim_is_exploratory_beside_the_frozen_one(self, study, tmp_path, claims):
        finished(tmp_path, study, claims)
        edit(claims, lambda entries: entries[0].update(margin=0.01))
        result = judged_again(tmp_path, study, claims)
        frozen, late = (o for o in result.judged if o.claim.id == "copy-equals-random")
        assert (frozen.claim.margin, frozen.exploratory, frozen.verdict) == (2.0, None, "supported")
        assert late.claim.margin == 0.01
        assert late.verdict != "supported"
        assert "exploratory (declared after test numbers were read)" in result.markdown

    def test_a_removed_claim_is_still_judged(self, study, tmp_path, claims):
        finished(tmp_path, study, claims)
        edit(claims, lambda entries: entries.pop(0))
        result = judged_again(tmp_path, study, claims)
        assert len(result.judged) == 7
        assert result.of("copy-equals-random").exploratory is None

    def test_better_words_change_nothing_but_words(self, study, tmp_path, claims):
        finished(tmp_path, study, claims)
        edit(claims, lambda entries: entries[0].update(title="Better words", why="a reason"))
        result = judged_again(tmp_path, study, claims)
        assert not any(one.exploratory for one in result.judged)
        assert "Better words" in result.markdown

    def test_late_claims_leave_the_frozen_family_alone(self, study, tmp_path, claims):
        before = finished(tmp_path, study, claims).judged
        edit(claims, lambda entries: entries.append(entries[0] | {"id": "new", "margin": 1.0}))
        after = judged_again(tmp_path, study, claims).judged
        assert [one.holm_support for one in after[:7]] == [one.holm_support for one in before]
        assert after[7].holm_support == after[7].p_support


class TestReport:
    def test_names_the_hash_and_no_date(self, study, tmp_path):
        markdown = finished(tmp_path, study, CLAIMS).markdown
        assert read_frozen(tmp_path / "claims.frozen.json")["sha256"] in markdown
        assert not re.search(r"20\d\d-\d\d", markdown)

    def test_same_results_same_bytes(self, study, tmp_path):
        finished(tmp_path, study, CLAIMS)
        before = [(tmp_path / f"claims.{kind}").read_bytes() for kind in ("md", "csv")]
        judged_again(tmp_path, study, CLAIMS)
        assert before == [(tmp_path / f"claims.{kind}").read_bytes() for kind in ("md", "csv")]

    def test_csv_lists_every_cell_and_gives_units_no_verdict(self, study, tmp_path):
        result = finished(tmp_path, study, CLAIMS)
        table = read_claims(tmp_path / "claims.csv")
        primary = table[table["level"] == "primary"].set_index("id")
        for one in result.judged:
            row = primary.loc[one.claim.id]
            assert row["cells"].split(";") == one.measured.cells
            assert row["mean"] == pytest.approx(one.summary.mean)
        secondary = table[table["level"] == "secondary"]
        assert len(secondary) == 7 * 4
        assert secondary[["verdict", "p_support", "holm_refute"]].isna().all(axis=None)

    def test_words_of_a_contrast(self):
        words = [in_words(claim) for claim in load_claims(CLAIMS)]
        assert words[0] == "copy/none - random/none"
        assert words[1] == "random/output - 0.5 Softmax fullcopy/none - 0.5 random/none"
        expected = [expectation(claim) for claim in load_claims(CLAIMS)]
        assert expected == ["within ±2", "> 0", "> 2", "> 0", "within ±2", "within ±2", "> -2"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c[0].update(expect="bigger"), "copy-equals-random: expect"),
        (lambda c: c[0].update(margin=0), "needs a margin above 0"),
        (lambda c: c[0].update(margin=-1), "margin"),
        (lambda c: c[0].update(colour="red"), "colour"),
        (lambda c: c[0].pop("why"), "why"),
        (lambda c: c[0]["contrast"][0].update(weight=2), "must sum to 0"),
        (lambda c: c[0]["contrast"][0]["arm"].update(init="copied"), "'copied' is not one of"),
        (lambda c: c[0]["contrast"][0]["arm"].update(distill="all"), "'all' is not one of"),
        (lambda c: c[0]["contrast"][0]["arm"].update(operator="relu"), "operator"),
        (lambda c: [t["arm"].update(operator="softmax") for t in c[0]["contrast"]], "linear one"),
        (lambda c: c[0].update(id=c[1]["id"]), "two claims have one id"),
        (lambda c: c.append("text"), "number 8"),
    ],
)
def test_bad_declarations_name_claim_and_key(claims, change, says):
    edit(claims, change)
    with pytest.raises(LinvitError, match=says):
        load_claims(claims)


@pytest.mark.parametrize("text", ["", "claims: 3", "[1]", "a: ["])
def test_files_that_declare_nothing(tmp_path, text):
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(LinvitError, match=r"claims\.yaml"):
        load_claims(tmp_path / "claims.yaml")


def test_a_planned_data_set_without_results_is_missing_not_forgotten(study, tmp_path):
    finished(tmp_path, study, CLAIMS)
    frozen = read_frozen(tmp_path / "claims.frozen.json")
    cells = read_cells(tmp_path / "cells.csv")
    judged = judge(load_claims(CLAIMS), frozen, cells[cells["dataset"] == "digits"])
    assert all(one.verdict == "not resolved" for one in judged)
    assert all(one.measured.reason.endswith("missing") for one in judged)
