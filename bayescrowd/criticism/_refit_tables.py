"""What a leave-one-out result remembers of its label table, so that results of different tables are not compared."""

import hashlib

import numpy as np

from bayescrowd.data.labels import CrowdLabels

__all__ = ["differences", "fingerprint"]

_WORDS = {
    "item": "items",
    "worker": "workers",
    "class": "classes",
    "label": "label values",
    "gold": "gold",
    "rows": "rows (who said what of which item)",
    "weight": "weights",
    "order": "order of the rows",
}


def fingerprint(labels: CrowdLabels, by: str) -> dict[str, str]:
    """Digest the parts of a label table.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    by : str
        Kind of piece; the order of the rows counts where pieces are rows.

    Returns
    -------
    dict
        Part -> digest.
    """
    codes = [labels.item_code, labels.worker_code, labels.label_code]
    weight = np.ones(labels.n_annotations) if labels.weight is None else np.asarray(labels.weight, float)
    order = np.lexsort((weight, *codes[::-1]))
    found = {
        "item": _of_ids(labels.items),
        "worker": _of_ids(labels.workers),
        "class": _of_ids(labels.classes),
        "label": _of_ids(labels.label_values),
        "gold": _of_arrays(labels.gold_code),
        "rows": _of_arrays(*(code[order] for code in codes)),
        "weight": _of_arrays(weight[order]),
    }
    if by == "annotation":
        found["order"] = _of_arrays(*codes, weight)
    return found


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Name what differs between two label tables.

    Parameters
    ----------
    first, second : dict
        From `fingerprint`.

    Returns
    -------
    list of str
        Words; the order of the rows only where nothing else differs.
    """
    found = [part for part in _WORDS if part in first and part in second and first[part] != second[part]]
    if len(found) > 1 and "order" in found:
        found.remove("order")
    return [_WORDS[part] for part in found]


def _of_ids(ids: object) -> str:
    return hashlib.blake2b(repr(list(ids)).encode(), digest_size=12).hexdigest()  # type: ignore[call-overload]


def _of_arrays(*arrays: np.ndarray) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, float if array.dtype.kind == "f" else np.int64).tobytes())
    return digest.hexdigest()
