"""Usual names of the columns of a label table, and how a role finds its column."""

from collections.abc import Hashable, Iterable, Sequence

from bayescrowd.errors import shorten

__all__ = ["NAMES", "OPTIONAL", "REQUIRED", "candidates", "find"]

REQUIRED = ("item", "worker", "label")
OPTIONAL = ("weight", "gold", "truth")

NAMES: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "task", "question", "example", "unit", "image", "object", "doc", "document", "sample", "instance",
        "sentence", "text", "record", "case", "patient", "subject", "query", "pair", "tweet", "url",
    ),
    "worker": (
        "worker", "annotator", "rater", "judge", "user", "coder", "labeller", "labeler", "observer", "performer",
        "voter", "reviewer", "expert", "participant", "grader", "model", "assessor", "turker",
    ),
    "label": (
        "label", "answer", "rating", "response", "annotation", "vote", "class", "category", "judgment", "judgement",
        "grade", "score", "verdict", "choice", "value",
    ),
    "weight": ("weight", "count", "n", "freq", "frequency"),
    "gold": ("gold", "gold_label", "golden"),
    "truth": ("truth", "ground_truth", "true_label", "true_class", "groundtruth"),
}  # fmt: skip


def _key(name: Hashable) -> str:
    """Lower-case, without plural, ``_id`` and separators: ``Task ID`` and ``taskId`` are ``task``."""
    text = str(name).strip().casefold().replace("-", "_").replace(" ", "_").replace(".", "_")
    return text


def _forms(name: str) -> set[str]:
    return {name, name + "s", name + "_id", name + "_ids", name + "id", name + "_name", name + "_index", "id_" + name}


_FORMS = {
    role: {form: name for name in names for form in (_forms(name) if role in ("item", "worker") else {name, name + "s"})}
    for role, names in NAMES.items()
}


def candidates(role: str, columns: Iterable[Hashable]) -> list[Hashable]:
    """Columns whose name is a usual one for a role, whatever the case; an exact role name rules the others out.

    Examples
    --------
    >>> candidates("item", ["Task_ID", "worker", "label"]), candidates("label", ["label", "response"])
    (['Task_ID'], ['label'])
    """
    hits = [column for column in columns if isinstance(column, str) and _key(column) in _FORMS[role]]
    exact = [column for column in hits if _key(column) == role]
    return exact if len(exact) == 1 else hits


def find(role: str, columns: Sequence[Hashable], problems: list[str], *, required: bool) -> Hashable | None:
    """The one column for a role; none or several are a problem (several, or none if required)."""
    hits = candidates(role, columns)
    if len(hits) == 1:
        return hits[0]
    if hits:
        problems.append(f"several columns may be the {role}: {shorten(hits)}; say which: {role}={hits[0]!r}.")
    elif required:
        problems.append(
            f"no column is recognised as the {role}; the columns are {shorten(columns, 20)}. Say which it is: "
            f"{role}='...'."
        )
    return None
