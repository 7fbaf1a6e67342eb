"""The data sets that bayescrowd knows, and how each becomes a ``CrowdLabels``.

Shipped with the package are two small printed tables:

- ``anesthesia``: 45 patients graded 1..4 by 5 anaesthetists, the first of them three times (Dawid and Skene 1979,
  Maximum likelihood estimation of observer error-rates using the EM algorithm, JRSS C 28(1), table 1). Patient 7 got
  1, 2, 2 from the first, as in most copies of the table; another copy in use has 1, 1, 2.
- ``caries``: 3859 teeth seen by 5 dentists, as 32 response patterns with counts (Espeland and Handelman 1989, Using
  latent class models to characterize and assess relative error in discrete measurements, Biometrics 45(2)).

The others come by download with checksum, or from a folder that holds ``NAME/labels.csv`` and ``NAME/truth.csv``.
"""

import difflib
import os
import re
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from bayescrowd.data.answers import answer_reader
from bayescrowd.data.columns import candidates
from bayescrowd.data.files import is_integer, numbers_of_text, read_table
from bayescrowd.data.frames import long_fields
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import DatasetError, LabelError, shorten

__all__ = ["ENVIRONMENT", "available", "fetch", "open_dataset"]

ENVIRONMENT = "BAYESCROWD_DATA"
SHIPPED = ("anesthesia", "caries")

# How pooch downloads; tests put a local copy here. None lets pooch choose by protocol.
downloader = None


def _table(name: str) -> pd.DataFrame:
    """Read a table of the package; everything as text."""
    source = files("bayescrowd.data").joinpath("tables", name)
    with source.open("r", encoding="utf-8") as stream:
        return pd.read_csv(stream, sep="\t" if name.endswith(".tsv") else ",", dtype=str, na_filter=False)


def _registry() -> pd.DataFrame:
    """Repository, commit, path, sha256 and bytes of each file that can be downloaded."""
    return _table("downloads.tsv")


def _folder(folder: str | os.PathLike[str] | None) -> Path | None:
    chosen = folder if folder is not None else os.environ.get(ENVIRONMENT) or None
    return None if chosen is None else Path(chosen).expanduser()


def _local(root: Path | None) -> list[str]:
    if root is None or not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / "labels.csv").is_file())


def available(folder: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """List the data sets; see ``bayescrowd.datasets.list``."""
    known = _table("catalog.tsv").set_index("name")
    for column in ("items", "workers", "labels", "classes"):
        known[column] = known[column].astype("Int64")
    known["truth"] = known["truth"] == "yes"
    known["where"] = ["shipped" if name in SHIPPED else "download" for name in known.index]
    root = _folder(folder)
    here = _local(root)
    for name in here:
        if name in known.index:
            if name not in SHIPPED or folder is not None:
                known.loc[name, "where"] = "local"
            continue
        truth = Path(str(root), name, "truth.csv")
        # sizes would take reading the set
        row = {"task": "", "truth": truth.is_file() and truth.read_bytes().count(b"\n") > 1, "where": "local"}
        known = pd.concat([known, pd.DataFrame(row, index=pd.Index([name], name="name"))])
    return known.reset_index()


def open_dataset(name: object, folder: str | os.PathLike[str] | None, download: bool) -> CrowdLabels:
    """Find a data set: named folder, then shipped, then the folder of the environment, then download."""
    if not isinstance(name, (str, os.PathLike)):
        raise DatasetError(
            f"a data set is named by text or the path of a folder, not by a {type(name).__name__}; "
            "bayescrowd.datasets.list() has the names."
        )
    text = str(os.fspath(name))
    root = _folder(folder)
    if folder is not None and (root is None or not root.is_dir()):
        raise DatasetError(f"folder={str(folder)!r} is no folder.")
    inside = root / text if root is not None and text else None
    if folder is None and text in SHIPPED:
        return _shipped(text)
    if inside is not None and (inside / "labels.csv").is_file():
        return _from_files(inside / "labels.csv", inside / "truth.csv", f"read from {str(inside)!r}.")
    if folder is None and Path(text).expanduser().is_dir() and (not isinstance(name, str) or _is_path(text)):
        return _from_folder(Path(text).expanduser())
    registry = _registry()
    if folder is not None:
        names = _local(root)
        raise DatasetError(
            f"{str(root)!r} has no {text!r}: no file {text}/labels.csv. It holds {shorten(names, 20)}."
            f"{_close(text, names)}"
        )
    if text in set(registry["name"]):
        if not download:
            raise DatasetError(
                f"{text!r} is not here and download=False; allow the download, or set {ENVIRONMENT} to a folder that "
                f"holds {text}/labels.csv."
            )
        labels, truth = fetch(text, registry)
        return _from_files(labels, truth, f"downloaded from {_url(registry, text)}.")
    names = sorted({*SHIPPED, *registry["name"], *_local(root)})
    if _is_path(text):
        raise DatasetError(
            f"there is no folder {text!r}; a data set is a folder with labels.csv, or a name in "
            "bayescrowd.datasets.list()."
        )
    raise DatasetError(
        f"there is no data set {text!r}.{_close(text, names)} Known are {shorten(names, 40)}; another can be read "
        f"from a folder that holds {text}/labels.csv: pass folder=, or set {ENVIRONMENT}."
    )


def _is_path(text: str) -> bool:
    return os.sep in text or (os.altsep is not None and os.altsep in text) or text.startswith((".", "~"))


def _close(text: str, names: list[str]) -> str:
    lower = {name.lower(): name for name in names}
    close = [lower[hit] for hit in difflib.get_close_matches(text.lower().replace("-", "_"), list(lower), 3, 0.5)]
    return f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""


def _shipped(name: str) -> CrowdLabels:
    table = _table(f"{name}.csv")
    if name == "anesthesia":
        # its repeats are data, so nobody needs a warning
        labels = CrowdLabels.from_long(table.astype(int), duplicates="keep", classes=[1, 2, 3, 4])
    else:
        patterns = table.set_index("pattern").astype(int)
        patterns.columns = pd.Index([int(name) if name != "n" else name for name in patterns.columns], dtype=object)
        labels = CrowdLabels.from_counts(patterns, count="n", classes=[1, 2])
    return labels


def _from_folder(folder: Path) -> CrowdLabels:
    if not (folder / "labels.csv").is_file():
        found = sorted(entry.name for entry in folder.iterdir())
        raise DatasetError(f"{str(folder)!r} has no labels.csv; it holds {shorten(found)}.")
    return _from_files(folder / "labels.csv", folder / "truth.csv", f"read from {str(folder)!r}.")


def _from_files(labels_file: Path, truth_file: Path, note: str) -> CrowdLabels:
    """One uniform form: item, worker, label in a csv file, truth by item in another."""
    try:
        frame, _, locate = read_table(labels_file, None)
        names = {role: _one(role, frame, labels_file) for role in ("item", "worker", "label")}
        reader = answer_reader([frame[names["label"]]], {})
        columns = {
            "item": numbers_of_text(frame[names["item"]]),
            "worker": numbers_of_text(frame[names["worker"]]),
            "label": reader(frame[names["label"]]),
        }
        truth = _truth(truth_file, columns) if truth_file.is_file() else None
        fields = long_fields(
            table=pd.DataFrame(columns),
            item="item",
            worker="worker",
            label="label",
            weight=None,
            gold=None,
            truth=truth,
            classes=None,
            labels=None,
            missing=None,
            duplicates="keep",
            items=None,
            workers=None,
            locate=locate,
            notes=(note,),
            quiet=True,  # published data are as they are
        )
    except LabelError as error:
        raise DatasetError(f"cannot use the data set in {str(labels_file.parent)!r}: {error}") from error
    return CrowdLabels(**fields)


def _one(role: str, frame: pd.DataFrame, file: Path) -> str:
    hits = candidates(role, frame.columns)
    if len(hits) != 1:
        raise LabelError(f"{file.name} must have one column {role!r}; its columns are {shorten(frame.columns)}.")
    return str(hits[0])


def _truth(file: Path, columns: dict[str, pd.Series]) -> pd.Series | None:
    """Truth by item, ids and values typed as those of the labels."""
    frame, _, _ = read_table(file, None)
    if not len(frame):
        return None
    item = _one("item", frame, file)
    value = _one("truth" if candidates("truth", frame.columns) else "label", frame, file)

    def like(texts: pd.Series, column: pd.Series) -> list[object]:
        whole = pd.api.types.is_integer_dtype(column.dtype)
        return [int(text) if whole and is_integer(text) else text for text in texts]

    index = pd.Index(like(frame[item], columns["item"]), tupleize_cols=False)
    return pd.Series(like(frame[value], columns["label"]), index=index)


def _url(registry: pd.DataFrame, name: str, file: str = "label.csv") -> str:
    row = registry[(registry["name"] == name) & (registry["file"] == file)].iloc[0]
    return f"https://raw.githubusercontent.com/{row['repository']}/{row['commit']}/{quote(row['path'])}"


def fetch(name: str, registry: pd.DataFrame) -> tuple[Path, Path]:
    """Download the files of a data set once, check their sha256, and say where they lie.

    Parameters
    ----------
    name : str
        A name of the registry.
    registry : DataFrame
        Columns name, file, repository, commit, path, sha256.

    Returns
    -------
    labels, truth : Path
        In pooch's cache for bayescrowd.

    Raises
    ------
    DatasetError
        If a file cannot be had or is not the one that was registered.
    """
    import pooch

    rows = registry[registry["name"] == name]
    keeper = pooch.create(
        path=pooch.os_cache("bayescrowd"),
        base_url="",
        registry={f"{name}/{row.file}": f"sha256:{row.sha256}" for row in rows.itertuples()},
        urls={f"{name}/{row.file}": _url(registry, name, str(row.file)) for row in rows.itertuples()},
    )
    paths: dict[str, Path] = {}
    for file in rows["file"]:
        try:
            paths[file] = Path(keeper.fetch(f"{name}/{file}", downloader=downloader))
        except (OSError, ValueError) as error:
            # without the chain of the libraries below, which says the same many times over
            raise DatasetError(
                f"cannot download {file} of {name!r} from {keeper.get_url(f'{name}/{file}')}: {_cause(error)}; try "
                f"again when online, or put labels.csv (item,worker,label) and truth.csv (item,label) into a folder "
                f"{name} and set {ENVIRONMENT} to the folder that holds it (or pass folder=)."
            ) from None
    return paths["label.csv"], paths["truth.csv"]


def _cause(error: BaseException) -> str:
    """Say the innermost reason of a failed download, in words and on one line."""
    if "hash" in str(error) and "does not match" in str(error):
        return "the file that came is not the registered one (its SHA-256 differs)"
    seen: list[BaseException] = []
    inner: BaseException | None = error
    while isinstance(inner, BaseException) and inner not in seen:
        seen.append(inner)
        held = [getattr(inner, "reason", None), *inner.args, inner.__cause__, inner.__context__]
        inner = next((value for value in held if isinstance(value, BaseException) and value not in seen), None)
    # the deepest that says anything; objects and pools of connections before the reason say nothing to a user
    texts = [re.sub(r"^(?:<[^>]*>|\w+\([^)]*\)): *", "", " ".join(str(each).split())) for each in seen]
    text = next((text for text in reversed(texts) if text), type(error).__name__)
    return text.rstrip(".")[:200]
