"""What the labels of a result can tell at all, and how the consensus compares with the plain vote."""

import numpy as np
import xarray as xr
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayescrowd.criticism.report import Finding
from bayescrowd.errors import count_of, shorten
from bayescrowd.results.tree import ids, n_labels_of, sizes_of, values
from bayescrowd.results.votes import leading, majority_codes, vote_shares

__all__ = ["against_majority", "of_the_labels", "silent_classes", "vanished_classes"]


def against_majority(tree: xr.DataTree) -> tuple[int, Finding]:
    """Compare the consensus with the plain vote.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    int
        Number of items whose leading classes are none of those that lead the vote.
    Finding
        The same in words, with the ties.
    """
    leads = leading(values(tree, "latent", "class_probability").astype(float))
    majority, tied = majority_codes(tree)
    free = (majority >= 0) & (values(tree, "observed_data", "gold_index") < 0)
    undecided = leads.sum(axis=1) > 1
    changed = free & ~(leads & leading(vote_shares(tree))).any(axis=1)
    items = ids(tree, "item")
    n_changed = int(changed.sum())
    n_ties = int((free & tied & ~undecided).sum())
    n_open = int((free & undecided).sum())
    ties = f"; it also decides {count_of(n_ties, 'tie')}" if n_ties else ""
    ties += f"; on {count_of(n_open, 'item')} it is itself tied" if n_open else ""
    if n_changed:
        text = (
            f"The consensus differs from the majority vote on {n_changed:,} of {count_of(len(items), 'item')} "
            f"({shorten(items[changed])}){ties}."
        )
    elif not (free & ~tied & ~undecided).any():
        text = f"There is no item on which both the majority vote and the consensus are clear{ties}."
    else:
        text = f"The consensus equals the majority vote on every item with a clear majority{ties}."
    return n_changed, Finding("note", "majority", text)


def of_the_labels(tree: xr.DataTree) -> list[Finding]:
    """Tell what the labels themselves cannot.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        What no engine can mend.
    """
    findings = []
    sizes = sizes_of(tree)
    if sizes.n_classes == 1:
        findings.append(
            Finding(
                "caution",
                "one-class",
                "There is one class only: every item is in it, and nothing can be said about workers.",
                "declare the classes that might have occurred, classes=[...], when you make the labels",
            )
        )
    findings += silent_classes(tree)
    n_by_worker = n_labels_of(tree, "worker")
    if (n_by_worker > 0).sum() == 1:
        findings.append(
            Finding(
                "caution",
                "one-worker",
                "One worker gave all labels: how accurate they are is not identified, only the prior says.",
                "add labels of other workers, or gold",
            )
        )
    n_parts = _components(tree)
    if n_parts > 1:
        findings.append(
            Finding(
                "caution",
                "disconnected",
                f"Items and workers fall into {n_parts} groups that share no label: workers of different groups are "
                f"compared only through the prior and the common prevalence.",
                "let some workers label items of several groups, or give gold in each",
            )
        )
    return findings


def vanished_classes(tree: xr.DataTree) -> list[Finding]:
    """Find classes to which less than one item is expected to belong.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        A caution for classes that somebody used as a label, a note for classes that nobody did.
    """
    expected = values(tree, "latent", "class_probability").sum(axis=0)
    classes = ids(tree, "class")
    used = np.bincount(values(tree, "observed_data", "label_index"), minlength=len(classes))[: len(classes)] > 0
    gone = expected < 1
    findings = []
    if (gone & used).any():
        lost = classes[gone & used]
        findings.append(
            Finding(
                "caution",
                "vanished-class",
                f"Fewer than one item is expected in class {shorten(lost)}, although workers used that label.",
                "look at these labels with fit.workers() and fit.consensus(); give gold for such items, or favour the "
                "diagonal more strongly, confusion_prior=bc.diagonal(3, 1)",
            )
        )
    if (gone & ~used).any():
        findings.append(
            Finding(
                "note",
                "unused-class",
                f"No worker ever says {shorten(classes[gone & ~used])}; that class stays empty.",
            )
        )
    return findings


def silent_classes(tree: xr.DataTree) -> list[Finding]:
    """Find classes that no worker ever says, though items are expected in them.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        At most one.
    """
    n_classes = sizes_of(tree).n_classes
    said = np.bincount(values(tree, "observed_data", "label_index"), minlength=n_classes)[:n_classes]
    expected = values(tree, "latent", "class_probability").sum(axis=0)
    silent = (said == 0) & (expected >= 1)
    if not silent.any():
        return []
    return [
        Finding(
            "caution",
            "never-said",
            f"No worker ever says {shorten(ids(tree, 'class')[silent])}, yet {expected[silent].sum():.0f} items "
            f"are expected there: only the prior says so, mostly of items without labels.",
            "give gold, leave the class out with classes=[...], or, where not answering means something, make it a "
            "label of its own with labels=[...]",
        )
    ]


def _components(tree: xr.DataTree) -> int:
    observed = tree["observed_data"].dataset
    item = observed["item_index"].to_numpy().astype(np.int64)
    worker = observed["worker_index"].to_numpy().astype(np.int64)
    n_items, n_workers = observed.sizes["item"], observed.sizes["worker"]
    n_nodes = n_items + n_workers
    graph = coo_array((np.ones(len(item), np.int8), (item, worker + n_items)), shape=(n_nodes, n_nodes))
    _, part = connected_components(graph, directed=False)
    return len(np.unique(part[np.unique(item)]))
