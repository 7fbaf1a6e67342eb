from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from bayescrowd.data.labels import CrowdLabels


def agreement_by_pairs(frame: pd.DataFrame) -> float:
    pairs = [
        (weight * other_weight, label == other_label)
        for _, rows in frame.groupby("item")
        for (worker, label, weight), (other, other_label, other_weight) in combinations(
            rows[["worker", "label", "weight"]].itertuples(index=False), 2
        )
        if worker != other
    ]
    return sum(weight for weight, same in pairs if same) / sum(weight for weight, _ in pairs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_raw_agreement_is_that_of_all_pairs_of_different_workers(seed, weighted):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"item": random.integers(0, 8, 60), "worker": random.integers(0, 5, 60), "label": random.integers(0, 3, 60)}
    )
    frame["weight"] = random.random(60) if weighted else 1.0
    labels = CrowdLabels.from_long(frame, weight="weight", duplicates="keep")
    assert labels.summary().raw_agreement == pytest.approx(agreement_by_pairs(frame), rel=1e-12)


def test_numbers():
    rows = [("a", "x", 0), ("a", "y", 1), ("a", "y", 1), ("b", "x", 0), ("b", "z", 0), ("c", "x", 0), ("d", "v", None)]
    labels = CrowdLabels.from_long(rows, classes=[0, 1, 2], duplicates="keep", gold={"a": 0}, truth={"a": 0, "b": 1})
    summary = labels.summary()
    assert (summary.n_items, summary.n_workers, summary.n_annotations) == (4, 4, 6)
    assert (summary.n_classes, summary.n_labels) == (3, 3)
    assert str(summary.labels_per_item) == "0 / 1.5 / 3"
    assert str(summary.labels_per_worker) == "0 / 1.5 / 3"
    assert summary.label_shares.tolist() == pytest.approx([4 / 6, 2 / 6, 0])
    assert summary.raw_agreement == pytest.approx(1 / 3)
    assert (summary.n_ties, summary.n_components, summary.n_repeats) == (0, 1, 1)
    assert (summary.n_gold, summary.n_truth) == (1, 2)
    assert summary.workers_one_label.tolist() == ["z"]
    assert summary.workers_one_value.tolist() == ["x", "y"]
    assert summary.workers_silent.tolist() == ["v"]
    assert summary.items_silent.tolist() == ["d"]
    assert summary.labels_unused.tolist() == [2]
    assert summary.notes == labels.notes
    text = str(summary)
    assert repr(summary) == text
    for part in (
        "connected",
        "yes",
        "raw agreement",
        "33.3%",
        "1 row of an item-worker pair",
        "1 label value that nobody",
    ):
        assert part in text


def test_separate_parts_are_said_in_words():
    rows = [("a", "x", 0), ("a", "y", 1), ("b", "x", 1), ("c", "z", 1), ("c", "u", 1), ("d", "v", 0)]
    labels = CrowdLabels.from_long(rows, workers=[*"xyzuvw"])
    summary = labels.summary()
    assert summary.n_components == 3
    assert summary.component_sizes.to_numpy().tolist() == [[2, 2, 3], [1, 2, 2], [1, 1, 1]]
    assert "no, 3 separate parts" in str(summary)
    assert (
        "2 items with 2 workers (such as item 'a'); 1 item with 2 workers (such as item 'c')" in summary.suspicions[0]
    )


def test_weighted_shares_and_ties():
    rows = pd.DataFrame([("a", "x", 0, 0.1), ("a", "y", 0, 0.2), ("a", "z", 1, 0.3), ("b", "x", 1, 1)],
                        columns=["item", "worker", "label", "weight"])  # fmt: skip
    summary = CrowdLabels.from_long(rows, weight="weight").summary()
    assert summary.n_ties == 1
    assert summary.label_shares.tolist() == pytest.approx([0.3 / 1.6, 1.3 / 1.6])
    assert CrowdLabels.from_long(rows).summary().n_ties == 0


def test_labels_that_are_no_class_do_not_win_a_majority():
    labels = CrowdLabels.from_long(
        [("a", "x", "?"), ("a", "y", "?"), ("a", "z", 1)], classes=[0, 1], labels=[0, 1, "?"]
    )
    assert labels.summary().n_ties == 0
    assert "2 of 3 label values" in str(labels.summary())


def test_html_is_escaped():
    labels = CrowdLabels.from_long([("a", "x", "<b>"), ("a", "y", "&")])
    html = labels._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html.replace("<p><b>Look at</b></p>", "").replace("<p><b>Notes</b></p>", "")


def test_an_empty_table_has_a_summary():
    summary = CrowdLabels.from_codes([], [], [], items=0, workers=0, classes=2).summary()
    assert summary.n_components == 0
    assert np.isnan(summary.raw_agreement)
    assert "0" in str(summary)


def test_many_labels_are_shortened():
    labels = CrowdLabels.from_codes([0] * 20, range(20), range(20), classes=20)
    assert "and 8 more" in str(labels.summary())
