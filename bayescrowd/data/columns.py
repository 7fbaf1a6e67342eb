"""Usual names of the columns of a label table, and how a role finds its column."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from bayescrowd.errors import shorten

__all__ = [
    "NAMES",
    "OPTIONAL",
    "REQUIRED",
    "as_mapping",
    "candidates",
    "find",
    "is_aside",
    "looks_like_id",
    "names_contents",
    "recognised",
]

REQUIRED = ("item", "worker", "label")
OPTIONAL = ("weight", "gold", "truth")

# Names in the second tuple also name contents or measurements, so they count only where none of the first is there.
NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "item": (
        ("item", "task", "question", "example", "unit", "image", "object", "doc", "document", "sample", "instance"),
        ("sentence", "text", "record", "case", "patient", "subject", "query", "pair", "tweet", "url"),
    ),
    "worker": (
        (
            "worker",
            "annotator",
            "rater",
            "judge",
            "user",
            "coder",
            "labeller",
            "labeler",
            "observer",
            "performer",
            "voter",
        ),
        ("reviewer", "expert", "participant", "grader", "assessor", "turker", "model"),
    ),
    "label": (
        ("label", "answer", "rating", "response", "annotation", "vote"),
        ("class", "category", "judgment", "judgement", "grade", "score", "verdict", "choice", "value"),
    ),
    "weight": (("weight", "count"), ("n", "freq", "frequency")),
    "gold": (("gold", "gold_label", "golden"), ()),
    "truth": (("truth", "ground_truth", "true_label", "true_class", "groundtruth"), ()),
}

_ID_LIKE = frozenset({"", "id", "ids", "idx", "index", "key", "row", "row_id", "rowid", "uid", "uuid", "pattern"})
_ASIDE = frozenset(
    {
        "confidence",
        "certainty",
        "timestamp",
        "time",
        "date",
        "duration",
        "comment",
        "comments",
        "note",
        "notes",
        "split",
    }
)


def _key(name: str) -> str:
    """Lower-case with one separator: ``Task ID`` is ``task_id``."""
    return "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").replace(".", " ").split())


def _forms(role: str, names: tuple[str, ...]) -> frozenset[str]:
    endings = ("", "s", "_id", "id", "_ids", "_name", "_index") if role in ("item", "worker") else ("", "s")
    return frozenset(name + ending for name in names for ending in endings)


_TIERS = {
    role: ({role}, _forms(role, (role,)), _forms(role, usual), _forms(role, loose))
    for role, (usual, loose) in NAMES.items()
}


def candidates(role: str, columns: Iterable[Hashable]) -> list[Hashable]:
    """Columns whose name is a usual one for a role, whatever the case.

    The role's own name rules out the others, and a usual name rules out those that may also name contents.

    Examples
    --------
    >>> candidates("item", ["Task_ID", "text", "label"]), candidates("label", ["label", "response"])
    (['Task_ID'], ['label'])
    """
    texts = [column for column in columns if isinstance(column, str)]
    for tier in _TIERS[role]:
        hits: list[Hashable] = [column for column in texts if _key(column) in tier]
        if hits:
            return hits
    return []


def as_mapping(name: str, columns: Iterable[Hashable]) -> str:
    """Write down how a table of known classes becomes a Series item -> class.

    Parameters
    ----------
    name : str
        Name of the table.
    columns : iterable
        Its columns; those of items and classes are found by their usual names, or else by their order.

    Returns
    -------
    str
        An expression.

    Examples
    --------
    >>> as_mapping("truth", ["item", "label"]), as_mapping("truth", ["label"])
    ("truth.set_index('item')['label']", "truth['label']")
    """
    every = list(columns)
    if len(every) == 1:  # items are its index
        return f"{name}[{every[0]!r}]"
    item = [*candidates("item", every), *every, "item"][0]
    rest = [column for column in every if column != item]
    label = [*(column for role in ("truth", "gold", "label") for column in candidates(role, rest)), *rest, "label"][0]
    return f"{name}.set_index({item!r})[{label!r}]"


def recognised(role: str, columns: Iterable[Hashable]) -> list[Hashable]:
    """Columns with any usual name for a role, those included that a better name rules out.

    Examples
    --------
    >>> recognised("item", ["Task_ID", "text", "label"])
    ['Task_ID', 'text']
    """
    forms = frozenset().union(*_TIERS[role])
    return [column for column in columns if isinstance(column, str) and _key(column) in forms]


def looks_like_id(column: Hashable) -> bool:
    """Whether a column's name is that of row numbers or ids.

    Examples
    --------
    >>> looks_like_id("ID"), looks_like_id("Unnamed: 0"), looks_like_id("w1")
    (True, True, False)
    """
    return isinstance(column, str) and (_key(column) in _ID_LIKE or _key(column).startswith("unnamed:"))


def names_contents(role: str, column: Hashable) -> bool:
    """Whether a usual name for a role may also name contents or measurements."""
    return isinstance(column, str) and _key(column) in _TIERS[role][-1]


def is_aside(column: Hashable) -> bool:
    """Whether a column's name says that it holds no worker's labels: ids, contents of items, circumstances."""
    return looks_like_id(column) or (
        isinstance(column, str) and (_key(column) in _ASIDE or bool(recognised("item", [column])))
    )


def find(
    role: str,
    columns: Sequence[Hashable],
    problems: list[str],
    *,
    required: bool,
    taken: Mapping[Hashable, str] | None = None,
) -> Hashable | None:
    """Find the one column for a role; several are a problem, none is one if the role is required.

    ``taken`` maps columns that have a role already to that role.
    """
    taken = taken or {}
    hits = candidates(role, [column for column in columns if column not in taken])
    if len(hits) == 1:
        return hits[0]
    if hits:
        problems.append(f"several columns may be the {role}: {shorten(hits)}; say which: {role}={hits[0]!r}.")
    elif required:
        twice = candidates(role, columns)
        if twice:
            problems.append(
                f"column {twice[0]!r} is taken twice: as the {taken[twice[0]]}, and it is the only one recognised as "
                f"the {role}; the columns are {shorten(columns, 20)}. Say which is the {role}: {role}='...'."
            )
        else:
            problems.append(
                f"no column is recognised as the {role}; the columns are {shorten(columns, 20)}. Say which it is: "
                f"{role}='...'."
            )
    return None
