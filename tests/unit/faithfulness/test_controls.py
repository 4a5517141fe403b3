"""Control scores: evidence, its noisy versions, token positions, and permuted scores."""

from collections import Counter

import numpy as np
import pytest

from pisoft.config.studies import Control, MetricValidation, Permuted
from pisoft.faithfulness.controls import control_rows, permuted_rows
from pisoft.store.parquet import NO_CONTENT_TOKENS, NO_EVIDENCE, OK

CONTENT = [False, True, True, False, True, True]
EVIDENCE = [False, False, True, False, False, True]
PLACES = [1, 2, 4, 5]


def prompt_of(sample="a", content=CONTENT, evidence=EVIDENCE):
    length = len(content)
    return {
        "sample_id": sample, "input_ids": list(range(length)), "content_mask": content,
        "user_mask": [True] * length, "bos_mask": [True] + [False] * (length - 1),
        "evidence_mask": evidence,
    }  # fmt: skip


def made(control, scope="content", seed=1, status=OK, steps=(0, 5), how="own", **prompt):
    generation = {"steps": list(steps), "status": status}
    return control_rows(prompt_of(**prompt), generation, control, scope, seed, how)


def scores(name, **options):
    (row, *_) = made(Control(kind="control", scores=name), **options)
    return row["raw_scores"]


def test_each_control_has_its_scores():
    assert scores("oracle") == [0, 0, 1, 0, 0, 1]
    assert scores("anti_oracle") == [0, 1, 0, 0, 1, 0]
    assert scores("position") == [0, 0, 1, 0, 2, 3]
    assert scores("uniform") == [0, 1, 1, 0, 1, 1]
    assert scores("first_token") == [0, 1, 0, 0, 0, 0]
    assert scores("first_token", scope="all") == [1, 0, 0, 0, 0, 0], "the first token of all"


def test_noise_has_its_standard_deviation_and_scales_the_same_draw():
    long = {"content": [True] * 4000, "evidence": [True] + [False] * 3999}
    exact = np.array(scores("oracle", **long))
    by_noise = {
        noise: np.array(
            made(Control(kind="control", scores="oracle", noise=noise), **long)[0]["raw_scores"]
        )
        for noise in (0.5, 2)
    }
    assert by_noise[2] - exact == pytest.approx(4 * (by_noise[0.5] - exact))
    assert np.std(by_noise[0.5]) == pytest.approx(0.5, rel=4.5 / np.sqrt(2 * 4000))


def test_noise_depends_only_on_its_key():
    noisy = Control(kind="control", scores="oracle", noise=1)
    first, later = made(noisy)
    assert first["raw_scores"] != later["raw_scores"], "each step has its own"
    assert made(noisy) == made(noisy)
    assert made(noisy, seed=2) != made(noisy)
    assert made(noisy, sample="b")[0]["raw_scores"] != first["raw_scores"]


def test_noise_is_shared_by_the_steps_of_one_heatmap():
    noisy = Control(kind="control", scores="oracle", noise=1)
    first, later = made(noisy, how="aggregated")
    assert first["raw_scores"] == later["raw_scores"]
    assert first["raw_scores"] != made(noisy)[0]["raw_scores"]


def test_a_sample_without_evidence_or_content_has_a_status():
    oracle = Control(kind="control", scores="oracle")
    assert [row["status"] for row in made(oracle, evidence=None)] == [NO_EVIDENCE] * 2
    assert [row["status"] for row in made(oracle, content=[False] * 6)] == [NO_CONTENT_TOKENS] * 2
    (failed,) = made(oracle, status="empty_generation")
    assert (failed["step"], failed["status"], failed["raw_scores"]) == (0, "empty_generation", None)
    assert made(Control(kind="control", scores="uniform"), evidence=None)[0]["status"] == OK


def test_only_the_oracle_has_noise():
    with pytest.raises(ValueError, match="only `oracle` has noise, not `uniform`"):
        Control(kind="control", scores="uniform", noise=1)


def permuted(scores_of_steps, number=1, sample="a", status=OK):
    rows = [
        {"sample_id": sample, "step": step, "raw_scores": raw, "converged": None, "status": status}
        for step, raw in enumerate(scores_of_steps)
    ]
    source = Permuted(method="m", number=number)
    shuffled = permuted_rows(prompt_of(sample), rows, source, "content", 1)
    return [row["raw_scores"] for row in shuffled]


def test_permutation_reorders_the_scores_of_perturbable_tokens():
    raw = [9.0, 0.5, 0.25, 8.0, 0.125, 0.0]
    orders = set()
    for number in range(1, 200):
        (shuffled,) = permuted([raw], number)
        assert (shuffled[0], shuffled[3]) == (9.0, 8.0), "out of scope"
        assert Counter(shuffled) == Counter(raw)
        orders.add(tuple(shuffled))
    assert len(orders) == 24, "all orders of four tokens come up"


def test_steps_and_methods_share_a_samples_permutation():
    first = [0.0, 1.0, 2.0, 0.0, 3.0, 4.0]
    second = [0.0, 10.0, 20.0, 0.0, 30.0, 40.0]
    shuffled, other = permuted([first, second])
    assert np.multiply(shuffled, 10).tolist() == other
    assert permuted([first]) == [shuffled]
    assert {tuple(permuted([first], sample=name)[0]) for name in "abcdef"} != {tuple(shuffled)}


def test_failed_steps_stay_unchanged():
    assert permuted([None], status="nonfinite_attribution") == [None]


def test_metric_validation_names_and_labels_its_controls():
    validation = MetricValidation(noise=(0.5, 1, 2))
    assert validation.ladder == ("oracle", "oracle-noise-0.5", "oracle-noise-1", "oracle-noise-2")
    assert validation.middle == "oracle-noise-1"
    assert MetricValidation(noise=(0.5, 2)).middle == "oracle-noise-0.5"
    by_name = {control.name: control for control in validation.controls}
    assert by_name["oracle-noise-2"].label == "Oracle, noise 2"
    assert set(by_name) == {*validation.ladder, "anti-oracle", "position", "uniform", "first-token"}


@pytest.mark.parametrize("noise", [(0.0, 1.0), (2.0, 1.0), ()])
def test_noise_levels_must_be_positive_and_increasing(noise):
    with pytest.raises(ValueError, match=r"greater than 0|must increase|at least 1 item"):
        MetricValidation(noise=noise)
