"""Small tables with known answers, one for each trouble that people reported. The id in a test's name is the report's.

The exact values are those of the oracle under R31 (class shares flat; confusion rows 3 on the diagonal, 1 off it); the
tests check the oracle against the printed values, and NUTS against the oracle.
"""

from __future__ import annotations

import numpy as np
import oracle
import pandas as pd
import pytest
from oracle import problem
from running import D1, labels_of, of_rows

import bayescrowd as bc

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
ROWS = [(i, k, int(c)) for i, text in enumerate(D1) for k, c in enumerate(text)]
D1_ANSWER = [0.71969, 0.06910, 0.91611, 0.30942, 0.22737]
"""P(class 1) of items a to e."""

W, F, S = 300, 750, 0.03


def nuts(labels, model=R31, **options):
    """A fit by NUTS, with settings that all tests share (so that equal shapes share compiled code)."""
    return bc.fit(labels, model, engine="nuts", warmup=W, draws=F, progress=False, **options)


def p1(fit):
    """Probability of the second class by item."""
    return fit.class_probabilities().iloc[:, 1].to_numpy()


def frame(rows=ROWS, names="abcdef", values=(0, 1)):
    """Long rows with names."""
    return pd.DataFrame(
        {
            "item": [names[i] for i, _, _ in rows],
            "worker": [f"w{k + 1}" for _, k, _ in rows],
            "label": [values[y] for _, _, y in rows],
        }
    )


# ---- D1 and everything of its shape: one compilation


CODINGS = {
    "int": (lambda column: column, [0, 1]),
    "float": (lambda column: column.astype(float), [0.0, 1.0]),
    "bool": (lambda column: column.astype(bool), [False, True]),
    "text": (lambda column: column.map({0: "no", 1: "yes"}), ["no", "yes"]),
    "int8": (lambda column: column.astype("int8"), [0, 1]),
    "Int64": (lambda column: column.astype("Int64"), [0, 1]),
    "string": (lambda column: column.map({0: "no", 1: "yes"}).astype("string"), ["no", "yes"]),
}


@pytest.fixture(scope="module")
def d1():
    return nuts(labels_of(D1))


def test_D1_by_the_oracle():
    exact = oracle.posterior(problem(ROWS))
    assert exact.log_evidence == pytest.approx(-11.21866, abs=5e-6)
    np.testing.assert_allclose(exact.class_probability[:, 1], D1_ANSWER, atol=6e-6)


@pytest.mark.parametrize("coding", CODINGS)
def test_P01_codings_of_the_labels(coding):
    code, names = CODINGS[coding]
    table = frame()
    table["label"] = code(table["label"])
    labels = bc.CrowdLabels.from_long(table, item="item", worker="worker", label="label")
    fit = nuts(labels)
    np.testing.assert_allclose(p1(fit), D1_ANSWER, atol=S)
    columns = fit.class_probabilities().columns.tolist()
    assert columns == names
    assert [type(value) for value in columns] == [type(value) for value in names]


def test_P82_D1_by_every_engine_with_draws(d1):
    np.testing.assert_allclose(p1(d1), D1_ANSWER, atol=S)
    np.testing.assert_allclose(d1.class_probabilities().sum(axis=1), 1, atol=1e-6)
    latent = d1.idata["latent"]["class_probability"]
    assert not np.isin(latent.to_numpy() * 4 * F, np.arange(4 * F + 1)).any(), "counts of draws, not probabilities"


MISSING = {"None": None, "NaN": np.nan, "NA": pd.NA, "blank": ""}


@pytest.mark.parametrize("missing", MISSING)
def test_P05_a_missing_label_is_no_class(missing):
    table = frame(values=("no", "yes"))
    table["label"] = table["label"].astype(object)
    table.loc[(table["item"] == "a") & (table["worker"] == "w3"), "label"] = MISSING[missing]
    fit = nuts(bc.CrowdLabels.from_long(table, item="item", worker="worker", label="label"))
    answer = [0.88606, 0.05096, 0.94281, 0.25616, 0.23246]
    exact = oracle.posterior(problem([row for row in ROWS if row[:2] != (0, 2)]))
    np.testing.assert_allclose(exact.class_probability[:, 1], answer, atol=6e-6)
    assert fit.class_probabilities().columns.tolist() == ["no", "yes"]
    np.testing.assert_allclose(p1(fit), answer, atol=S)


def test_P06_a_missing_label_is_not_a_wrong_one():
    with_none = frame()
    with_none["label"] = with_none["label"].astype(object)
    gone = (with_none["item"] == "a") & (with_none["worker"] == "w3")
    with_none.loc[gone, "label"] = None
    one, other = (
        nuts(bc.CrowdLabels.from_long(table, item="item", worker="worker", label="label"))
        for table in (with_none, frame()[~gone])
    )
    pd.testing.assert_frame_equal(one.workers(), other.workers())
    assert one.workers().loc["w3", "n_labels"] == 4
    exact = oracle.posterior(problem([row for row in ROWS if row[:2] != (0, 2)]))
    np.testing.assert_allclose(exact.accuracy_of_means, [0.79649, 0.75756, 0.74402], atol=6e-6)
    np.testing.assert_allclose(one.workers()["accuracy"], exact.accuracy, atol=S)


def test_P18_order_of_the_output():
    order = "caebd"
    rows = [row for name in order for row in ROWS if row[0] == "abcde".index(name)]
    fit = nuts(bc.CrowdLabels.from_long(frame(rows), item="item", worker="worker", label="label"))
    table = fit.class_probabilities()
    assert table.index.tolist() == list(order)
    assert table.columns.tolist() == [0, 1]
    np.testing.assert_allclose(table.loc[list("abcde"), 1], D1_ANSWER, atol=S)


def test_P27_different_numbers_of_labels():
    rows = [row for row in ROWS if row[:2] not in {(1, 2), (2, 1), (4, 0)}]
    exact = oracle.posterior(problem(rows)).class_probability[:, 1]
    fit = nuts(bc.CrowdLabels.from_long(frame(rows), item="item", worker="worker", label="label"))
    np.testing.assert_allclose(p1(fit), exact, atol=S)


def test_P44_order_and_names_carry_nothing(d1):
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(ROWS)
        table = frame([tuple(row) for row in rows.tolist()])
        table["worker"] = table["worker"].map({"w1": "z", "w2": "y", "w3": "x"})
        table["item"] = table["item"].str.upper()
        fit = nuts(bc.CrowdLabels.from_long(table, item="item", worker="worker", label="label"))
        found = fit.class_probabilities().loc[list("ABCDE"), 1]
        np.testing.assert_allclose(found, p1(d1), atol=S)


def test_P44_em_is_exactly_indifferent_to_order():
    found = []
    for seed in range(10):
        rows = np.random.default_rng(seed).permutation(ROWS)
        fit = bc.fit(of_rows(rows), R31, objective="posterior", progress=False, engine="em")
        found.append(p1(fit))
    assert np.ptp(found, axis=0).max() < 1e-6


def test_P47_gold_steers():
    exact = oracle.posterior(problem(ROWS, gold={0: 0}))
    np.testing.assert_allclose(exact.class_probability[:, 1], [0, 0.03419, 0.81256, 0.11455, 0.2198], atol=6e-6)
    np.testing.assert_allclose(exact.accuracy_of_means, [0.72736, 0.65607, 0.76091], atol=6e-6)
    fit = nuts(bc.CrowdLabels.from_long(frame(), item="item", worker="worker", label="label", gold={"a": 0}))
    np.testing.assert_allclose(p1(fit), exact.class_probability[:, 1], atol=S)
    assert p1(fit)[0] == 0
    np.testing.assert_allclose(fit.workers()["accuracy"], exact.accuracy, atol=S)


def test_P47_conflicting_gold_raises():
    table = frame()
    table["gold"] = [0 if n % 2 else 1 for n in range(len(table))]
    with pytest.raises(bc.LabelError, match="a"):
        bc.CrowdLabels.from_long(table, item="item", worker="worker", label="label", gold="gold")


# ---- other shapes, by NUTS: one compilation each


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
class TestByNuts:
    def check(self, rows, answer, *, model=R31, atol=6e-6, **more):
        """The oracle gives the printed answer and NUTS agrees with it; returns both."""
        labels = of_rows(rows, **{key: value for key, value in more.items() if key not in {"confusion", "n_classes"}})
        exact = oracle.posterior(oracle.of_labels(labels), confusion=more.get("confusion"))
        if answer is not None:
            np.testing.assert_allclose(exact.class_probability[:, 1], answer, atol=atol)
        fit = nuts(labels, model)
        np.testing.assert_allclose(fit.class_probabilities(), exact.class_probability, atol=S)
        assert np.isfinite(fit.class_probabilities().to_numpy()).all()
        return exact, fit

    def test_P12_a_worker_without_labels(self):
        wide = pd.DataFrame([[float(c) for c in text] for text in D1], index=list("abcde"), columns=["w1", "w2", "w3"])
        wide["w4"] = np.nan
        fit = nuts(bc.CrowdLabels.from_wide(wide, items="rows"))
        np.testing.assert_allclose(p1(fit), D1_ANSWER, atol=S)
        workers = fit.workers()
        assert workers.loc["w4", "n_labels"] == 0
        assert workers.loc["w4", "accuracy"] == pytest.approx(0.75, abs=S)

    def test_P17_one_row(self):
        labels = bc.CrowdLabels.from_long(
            pd.DataFrame({"item": ["a"], "worker": ["w1"], "label": ["yes"]}), classes=["no", "yes"]
        )
        fit = nuts(labels)
        assert fit.class_probabilities().loc["a", "yes"] == pytest.approx(0.75, abs=S)
        assert fit.converged is not False

    def test_P20_everyone_says_the_same(self):
        rows = [(i, k, 0) for i in range(5) for k in range(3)]
        exact, fit = self.check(rows, [1 - 0.99398] * 5)
        assert exact.prevalence[0] == pytest.approx(0.85284, abs=6e-6)
        np.testing.assert_allclose(np.diagonal(exact.confusion[0, 0]), [0.88844, 0.74574], atol=6e-6)
        found = np.diagonal(fit.confusion("w1").to_numpy())
        np.testing.assert_allclose(found, np.diagonal(exact.confusion[0, 0]), atol=S)

    def test_P21_one_worker(self):
        rows = [(i, 0, y) for i, y in enumerate([0, 1, 1, 0, 1, 1])]
        self.check(rows, np.where([0, 1, 1, 0, 1, 1], 0.74638, 0.33983))
        flat = oracle.posterior(problem(rows), confusion=1.0)
        np.testing.assert_allclose(flat.class_probability, 0.5, atol=1e-12)

    def test_P22_two_workers(self):
        rows = [
            (i, k, int(c)) for i, text in enumerate(["11", "11", "00", "01", "10", "00"]) for k, c in enumerate(text)
        ]
        self.check(rows, [0.85222, 0.85222, 0.14778, 0.5, 0.5, 0.14778])

    @pytest.mark.parametrize(
        ("said", "first", "diagonal"), [(1, 0.88509, [0.73276, 0.79425]), (0, 0.46116, [0.77694, 0.68083])]
    )
    def test_P25_a_worker_with_one_label(self, said, first, diagonal):
        exact, fit = self.check([*ROWS, (0, 3, said)], None)
        assert exact.class_probability[0, 1] == pytest.approx(first, abs=6e-6)
        np.testing.assert_allclose(np.diagonal(exact.confusion[3, 0]), diagonal, atol=6e-6)
        np.testing.assert_allclose(np.diagonal(fit.confusion("w4").to_numpy()), diagonal, atol=S)
        row = fit.workers().loc["w4"]
        assert row["accuracy_upper"] - row["accuracy_lower"] > 0.3

    @pytest.mark.parametrize(("worker", "said", "answer"), [(0, 1, 0.75594), (3, 1, 0.72126), (3, 0, 0.22331)])
    def test_P26_an_item_with_one_label(self, worker, said, answer):
        exact, _ = self.check([*ROWS, (5, worker, said)], None)
        assert exact.class_probability[5, 1] == pytest.approx(answer, abs=6e-6)

    def test_P29_repeats_are_kept_as_repeats(self):
        self.check(ROWS + [(0, 2, 0)] * 5, [0.19355, 0.0548, 0.89219, 0.19405, 0.30229])
        self.check([*ROWS, (0, 0, 0)], [0.46632, 0.07839, 0.88756, 0.29758, 0.2659])

    def test_P30_zero_probabilities(self):
        rows = [(i, k, y if k < 2 else 0) for i, y in enumerate([0, 0, 0, 0, 1, 1, 1, 1]) for k in range(3)]
        rows += [(8, 0, 0), (8, 1, 0), (8, 2, 1)]
        answer = [0.02833] * 4 + [0.90043] * 4 + [0.08462]
        _, fit = self.check(rows, answer)
        assert ((p1(fit) > 0) & (p1(fit) < 1)).all()
        assert np.isfinite(fit.idata["log_likelihood"]["labels_of_item"]).all()

    def test_P46_weights(self):
        twice = [2.0 if k == 0 else 1.0 for _, k, _ in ROWS]
        answer = [0.93299, 0.01216, 0.98523, 0.09292, 0.05148]
        exact, _ = self.check(ROWS, answer, weight=twice)
        repeated = oracle.posterior(problem(ROWS + [row for row in ROWS if row[1] == 0]))
        np.testing.assert_allclose(exact.class_probability, repeated.class_probability, atol=1e-12)
        half = [0.5 if k == 2 else 1.0 for _, k, _ in ROWS]
        self.check(ROWS, [0.81251, 0.08206, 0.90344, 0.38147, 0.1575], weight=half)

    def test_P48_history_adds_to_the_prior(self):
        prior = np.tile(oracle.diagonal(2, 2, 3, 1), (3, 1, 1))
        prior[0] += [[9, 1], [1, 9]]
        answer = [0.77382, 0.03204, 0.94515, 0.23031, 0.14256]
        self.check(ROWS, answer, model=bc.DawidSkene(confusion_prior=prior), confusion=prior[:, None])

    def test_P72_priors_and_labels_at_the_edge(self):
        prior = np.array([[30, 69.998, 0.002], [0.002, 30, 69.998], [69.998, 0.002, 30]])
        rng = np.random.default_rng(0)
        rows = [(i, k, int(rng.integers(3))) for i in range(8) for k in range(3)] + [(0, 0, 1)] * 200
        fit = nuts(of_rows(rows, classes=3), bc.DawidSkene(confusion_prior=prior), on_failure="warn")
        assert np.isfinite(fit.idata["sample_stats"]["lp"]).all()
        assert np.isfinite(fit.idata["log_likelihood"]["labels_of_item"]).all()
        assert np.isfinite(fit.class_probabilities().to_numpy()).all()

    def test_P87_fifty_thousand_draws(self):
        fit = bc.fit(labels_of(D1), R31, engine="nuts", warmup=1000, draws=12_500, progress=False)
        exact = oracle.posterior(problem(ROWS))
        np.testing.assert_allclose(p1(fit), exact.class_probability[:, 1], atol=0.01)
        draws = fit.idata["posterior"]["confusion"].mean(("chain", "draw"))
        np.testing.assert_allclose(draws, exact.confusion[:, 0], atol=0.01)


@pytest.mark.slow
def test_P33_anesthesia_by_nuts():
    fit = bc.fit(bc.datasets.load("anesthesia"), R31, engine="nuts", chains=4, warmup=500, draws=1500, progress=False)
    posterior = fit.idata["posterior"]
    np.testing.assert_allclose(posterior["prevalence"].mean(("chain", "draw")), [0.396, 0.435, 0.123, 0.047], atol=0.01)
    assert fit.diagnose().r_hat < 1.01
    assert fit.converged
    p = fit.class_probabilities()
    listed = {(2, 3): 0.963, (3, 1): 0.459, (3, 2): 0.540, (7, 1): 0.955, (12, 2): 0.926}
    listed |= {(36, 3): 0.781, (36, 4): 0.219, (38, 2): 0.800, (38, 3): 0.200}
    for (patient, grade), value in listed.items():
        assert p.loc[patient, grade] == pytest.approx(value, abs=S), patient
    others = p.drop(index=[2, 3, 7, 12, 36, 38])
    assert others.max(axis=1).min() > 0.97 - 0.01
