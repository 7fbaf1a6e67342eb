"""The co-label graph: workers are joined where they labelled the same items."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayescrowd.moments.cooccurrence import Cooccurrence

__all__ = ["Components", "components"]


class Components(NamedTuple):
    """The parts of a co-label graph.

    Parameters
    ----------
    of_worker : int array [worker]
        Number of the component of each worker, the one with most labels first; workers without partners are alone.
    bipartite : bool array [component]
        True where the workers fall into two sides and nobody shares items with a worker of the same side. The second
        moments of such a component leave an invertible matrix undetermined. A single worker counts as bipartite.
    """

    of_worker: np.ndarray
    bipartite: np.ndarray

    @property
    def n(self) -> int:
        """Number of components."""
        return len(self.bipartite)


def components(pairs: Cooccurrence, *, least: float = 0.0) -> Components:
    """Find the components of the co-label graph, and which of them are bipartite.

    Parameters
    ----------
    pairs : Cooccurrence
        The pair statistics.
    least : float
        Pairs with fewer common items do not join workers.

    Returns
    -------
    Components
        A component is bipartite exactly where its double cover falls apart.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.moments.cooccurrence import cooccurrence
    >>> found = components(cooccurrence(bc.datasets.load("anesthesia")))
    >>> found.n, found.bipartite.tolist()
    (1, [False])
    """
    kept = pairs.total >= least
    first, second, n = pairs.first[kept], pairs.second[kept], pairs.n_workers
    n_found, part = _parts(first, second, n)
    _, double = _parts(np.concatenate([first, first + n]), np.concatenate([second + n, second]), 2 * n)
    n_labels = pairs.label_count.sum(axis=1)
    order = np.argsort(-np.bincount(part, n_labels, n_found), kind="stable")
    rank = np.empty(n_found, int)
    rank[order] = np.arange(n_found)
    bipartite = np.ones(n_found, bool)
    bipartite[rank[part[double[:n] == double[n:]]]] = False
    return Components(rank[part], bipartite)


def _parts(first: np.ndarray, second: np.ndarray, n: int) -> tuple[int, np.ndarray]:
    graph = sparse.coo_array((np.ones(len(first), bool), (first, second)), shape=(n, n))
    n_found, part = connected_components(graph, directed=False)
    return int(n_found), part
