"""Files of items by workers, and of response patterns: which columns are workers and which are something else."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.answers import answer_reader
from bayescrowd.data.columns import candidates, find, is_aside, looks_like_id, names_contents, recognised
from bayescrowd.data.counts import counts_fields
from bayescrowd.data.files import numbers_of_text
from bayescrowd.data.frames import wide_fields
from bayescrowd.errors import LabelError, problems_message, shorten

__all__ = ["counts_file", "wide_file"]

_Given = Mapping[str, Any]


@dataclass
class _Split:
    """What the columns of a table are: ``sides`` are gold and truth by position, ``aside`` is used for nothing."""

    names: list[Any]
    noun: str = "column"
    sides: dict[str, int] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def free(self) -> list[int]:
        """Positions that have no role yet."""
        used = self.aside | set(self.sides.values())
        return [position for position in range(len(self.names)) if position not in used]

    def at(self, names: Sequence[Hashable]) -> set[int]:
        """Positions of the given names that have no role yet."""
        return {position for position in self.free() if self.names[position] in names}

    def take_sides(self, given: _Given, *, mappings: bool) -> None:
        """Find gold and truth; whatever else has such a name is no worker."""
        for role in ("gold", "truth"):
            said = given[role]
            if isinstance(said, (Mapping, pd.Series)):
                self.known[role] = said
                if not mappings:
                    self.problems.append(f"{role} must be the name of a column here: patterns hold many items.")
            elif said is None:
                hits = candidates(role, [self.names[position] for position in self.free()])
                if len(hits) > 1:
                    self.problems.append(
                        f"several {self.noun}s may be the {role}: {shorten(hits)}; say which: {role}={hits[0]!r}, or "
                        f"{role}=False for none."
                    )
                elif hits:
                    self.sides[role] = self.names.index(hits[0])
                    self.notes.append(f"{self.noun} {hits[0]!r} is used as the {role}.")
            elif said is not False:
                # a name may serve as gold and truth at once
                here = [position for position, name in enumerate(self.names) if _same(name, said)]
                if len(here) == 1:
                    self.sides[role] = here[0]
                else:
                    how = "there is no" if not here else f"there are {len(here)}"
                    self.problems.append(
                        f"{how} {self.noun}{'' if len(here) < 2 else 's'} {said!r:.80} for the {role}; the "
                        f"{self.noun}s are {shorten(self.names, 20)}."
                    )
        for role in ("gold", "truth"):
            self.aside |= self.at(recognised(role, self.names))

    def leave_aside(self) -> None:
        """Leave out columns that cannot be workers, whatever the layout."""
        self.aside |= {position for position in self.free() if is_aside(self.names[position])}
        odd = [
            name
            for position, name in enumerate(self.names)
            if position in self.free() and isinstance(name, str) and name.strip().lower() in ("worker", "label")
        ]
        if odd:
            what = "column {} cannot be a worker" if len(odd) == 1 else "columns {} cannot be workers"
            self.problems.append(
                f"{what.format(shorten(odd))}; is this table of another layout? layout='long' has a row per annotation."
            )

    def finish(self, path: str) -> tuple[str, ...]:
        """Raise the problems; return the notes."""
        if self.problems:
            raise LabelError(problems_message(f"cannot use {path!r}", self.problems))
        unused = [self.names[position] for position in sorted(self.aside) if self.names[position] != ""]
        return (*self.notes, *([f"{self.noun}s not used: {shorten(unused)}."] if unused else []))


def _same(name: object, said: object) -> bool:
    return type(name) is type(said) and name == said


def _ids(frame: pd.DataFrame, role: str, said: Hashable, problems: list[str]) -> int | None:
    """Position of the column of row ids."""
    names = list(frame.columns)
    if said is None:
        usual = candidates(role, names)
        numbered = [name for name in names if looks_like_id(name) and (name != "" or names[0] == "")]
        if numbered and usual and names_contents(role, usual[0]):
            usual = []  # a text beside an id is what the item says
        if len(usual) > 1:
            problems.append(f"several columns may be the {role}: {shorten(usual)}; say which: {role}={usual[0]!r}.")
        found = usual or numbered
        return [*names].index(str(found[0])) if found else None
    if said not in names:
        problems.append(f"there is no column {said!r} of {role} ids; the columns are {shorten(names, 20)}.")
        return None
    if names.count(said) > 1:
        problems.append(f"column {said!r} ({role}) occurs {names.count(said)} times; give columns distinct names.")
    return names.index(said)


def _without_empty(frame: pd.DataFrame, is_text: bool) -> pd.DataFrame:
    """Leave out columns with neither name nor content, which spreadsheets write for cells that were touched."""
    if not is_text:
        return frame
    empty = [name == "" and not frame.iloc[:, at].str.strip().any() for at, name in enumerate(frame.columns)]
    return frame.loc[:, ~np.array(empty, dtype=bool)]


def wide_file(
    frame: pd.DataFrame,
    is_text: bool,
    locate: Callable[[int], str],
    path: str,
    items: str,
    given: _Given,
    said: Mapping[str, Any],
) -> dict[str, Any]:
    """Fields of a file of items by workers; arguments as ``read_labels``, ``locate`` names rows."""
    rows = items == "rows"
    frame = _without_empty(frame, is_text)
    problems: list[str] = []
    at = _ids(frame, "item" if rows else "worker", given["item" if rows else "worker"], problems)
    ids = None if at is None else frame.iloc[:, at]
    cells = frame if at is None else frame.iloc[:, [place for place in range(frame.shape[1]) if place != at]]
    header = _Split(list(cells.columns), problems=problems)
    if not rows:
        _items_in_header(header, given)
        notes = header.finish(path)
        cells = cells.iloc[:, header.free()]
        split = _Split(list(range(len(frame))) if ids is None else ids.tolist(), noun="row", notes=list(notes))
        split.take_sides(given, mappings=True)
    else:
        split = header
        split.take_sides(given, mappings=True)
        _refuse_weights(split, given)
        split.leave_aside()
    notes = split.finish(path)
    workers, sides = split.free(), split.sides
    columns = cells.columns.tolist()
    table = (cells if rows else cells.T).reset_index(drop=True)
    parts = {position: table.iloc[:, position] for position in dict.fromkeys([*workers, *sides.values()])}
    if is_text:
        answers = [*workers, *([sides["gold"]] if "gold" in sides else [])]
        reader = answer_reader([parts[position] for position in answers], said)
        parts = {position: reader(column) for position, column in parts.items()}
    names = [split.names[position] for position in workers]
    if not rows and is_text and ids is not None:
        names = numbers_of_text(pd.Series(names, dtype="str")).tolist()
    body = pd.concat([parts[position] for position in workers], axis=1) if workers else table.iloc[:, :0]
    body.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    if not rows:
        body.index = pd.Index(columns, dtype=object, tupleize_cols=False)
    elif ids is not None:
        body.index = pd.Index((numbers_of_text(ids) if is_text else ids).array, name=None)

    def where(item: int, worker: int) -> str:
        if rows:
            return f"{locate(item)}, column {names[worker]!r}"
        return f"{locate(workers[worker])}, column {columns[item]!r}"

    sided = {role: parts[position].rename(split.names[position]) for role, position in sides.items()}
    return wide_fields(
        table=body,
        items="rows",
        gold=split.known.get("gold"),
        truth=split.known.get("truth"),
        **said,
        locate=where,
        notes=notes,
        sided=sided,
    )


def _items_in_header(header: _Split, given: _Given) -> None:
    """Where columns are items, one with the name of gold, truth or weights says that something is amiss."""
    for role in ("gold", "truth", "weight"):
        hits = [name for name in recognised(role, header.names) if name not in ("n", "N")]
        if hits and given[role] is False:
            header.aside |= header.at(hits)
        elif hits:
            header.problems.append(
                f"column {hits[0]!r} looks like the {role}, but with items='columns' every column is an item; pass "
                f"items='rows' if the items are the rows, or {role}=False to leave it out."
            )


def _refuse_weights(split: _Split, given: _Given) -> None:
    hits = [name for name in recognised("weight", split.names) if name not in ("n", "N")]
    free = split.at(hits)
    if given["weight"] is False:
        split.aside |= free
    elif free:
        names = shorten([split.names[position] for position in sorted(free)])
        split.problems.append(
            f"column {names} looks like weights or counts, not like a worker's labels, and weights have no meaning in "
            "the wide layout. Pass weight=False to leave it out, layout='counts' if rows are patterns that many items "
            "show, or weight single labels in the long layout."
        )


def counts_file(
    frame: pd.DataFrame,
    is_text: bool,
    locate: Callable[[int], str],
    path: str,
    count: Hashable,
    given: _Given,
    said: Mapping[str, Any],
) -> dict[str, Any]:
    """Fields of a file of response patterns with counts; arguments as ``read_labels``."""
    frame = _without_empty(frame, is_text)
    split = _Split(list(frame.columns))
    if count is None:
        found: list[str] = []
        count = find("weight", split.names, found, required=True)
        split.problems += [text.replace("the weight", "the count").replace("weight=", "count=") for text in found]
    elif split.names.count(count) != 1:
        split.problems.append(
            f"there is no one column {count!r} of counts; the columns are {shorten(split.names, 20)}."
        )
    at = _ids(frame, "item", given["item"], split.problems)
    own = {place for place in (at, split.names.index(count) if count in split.names else None) if place is not None}
    split.aside |= own
    split.take_sides(given, mappings=False)
    more = split.at(recognised("weight", split.names)) if count is not None else set()
    if given["weight"] is False:
        split.aside |= more
    elif more:
        split.problems.append(
            f"column {shorten([split.names[place] for place in sorted(more)])} looks like counts beside {count!r}, not "
            "like a worker's labels; say which is the count: count='...', and pass weight=False to leave the other out."
        )
    split.leave_aside()
    split.aside -= own
    notes = split.finish(path)
    workers = [place for place in split.free() if place not in own]
    parts = {place: frame.iloc[:, place] for place in dict.fromkeys([*workers, *split.sides.values()])}
    if is_text:
        answers = [*workers, *([split.sides["gold"]] if "gold" in split.sides else [])]
        reader = answer_reader([parts[place] for place in answers], said)
        parts = {place: reader(column) for place, column in parts.items()}
    parts[split.names.index(count)] = frame.iloc[:, split.names.index(count)]
    table = pd.concat(list(parts.values()), axis=1)
    if at is not None:
        table.index = pd.Index(frame.iloc[:, at].array, name=None)
    named = {role: split.names[place] for role, place in split.sides.items()}
    return counts_fields(
        table=table,
        count=count,
        workers=None,
        gold=named.get("gold"),
        truth=named.get("truth"),
        **said,
        locate=locate,
        notes=notes,
    )
