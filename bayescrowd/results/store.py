"""Saving and loading result trees as NetCDF files or zarr stores: no pickle, any ids, readable by xarray alone."""

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bayescrowd.errors import BayescrowdError, LabelError, problems_message, shorten
from bayescrowd.results.build import FORMAT
from bayescrowd.results.ids import InMemory

__all__ = ["load", "save"]

_ENGINE: Final = "h5netcdf"
_ZARR: Final = ".zarr"
_LONG = "long_attributes"
_ROOT = "zarr.json"
_DIGEST = "content_sha256"
_DAMAGED = (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What the libraries below raise on files that are damaged or of another kind."""

_LONGEST = 32_000
"""HDF5 refuses attributes above 64 kB (UTF-8 takes up to four bytes a character, most ids take one or two)."""


def save(tree: xr.DataTree, path: str | Path) -> None:
    """Write a result to a NetCDF file, or to a zarr store where the name ends in ``.zarr``.

    Parameters
    ----------
    tree : DataTree
        The result.
    path : str or Path
        Where to; the folder must exist, an existing file or store is replaced.

    Raises
    ------
    BayescrowdError
        Where the folder does not exist, the path is a folder or cannot be written, or an id has no form in a file.
    """
    target = _path(path, "save to")
    as_zarr = _is_zarr(target)
    if target.is_dir() and not (as_zarr and (target / _ROOT).is_file()):
        raise BayescrowdError(f"cannot save to {str(target)!r}: it is a folder; give a file name, e.g. 'fit.nc'")
    if not target.parent.is_dir():
        raise BayescrowdError(
            f"cannot save to {str(target)!r}: there is no folder {str(target.parent)!r}; create it first"
        )
    _refuse_ids(tree)
    copy = tree.copy()
    attrs: dict[str, Any] = {}
    long: dict[str, Any] = {}
    for name, value in _root(tree).items():
        text = json.dumps(value) if isinstance(value, list) else value
        if isinstance(text, str) and len(text) > _LONGEST:
            long[name] = ((), np.array(text, object))
        else:
            attrs[name] = text
    attrs["json_lists"] = " ".join(name for name, value in _root(tree).items() if isinstance(value, list))
    attrs[_DIGEST] = _digest(tree, _root(tree))
    copy.attrs = attrs
    if long:
        copy[_LONG] = xr.DataTree(xr.Dataset(long))
    # Written beside the target first, so that a failure never leaves half a file in its place.
    part = target.with_name(f".{target.name}.part")
    try:
        if as_zarr:
            _write_zarr(copy, part, target)
        else:
            copy.to_netcdf(str(part), engine=_ENGINE)
            part.replace(target)
    except OSError as error:
        raise BayescrowdError(
            f"cannot save to {str(target)!r} ({error}): choose a folder that you may write to and that has room"
        ) from error
    finally:
        _remove(part)


def load(path: str | Path) -> xr.DataTree:
    """Read a result that `save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    DataTree
        The result, in memory; the file is closed.

    Raises
    ------
    BayescrowdError
        Where there is no such file, it is no result of bayescrowd or damaged, or a newer version wrote it.
    """
    source = _path(path, "load from")
    if not source.exists():
        near = sorted(str(found) for found in source.parent.glob("*.nc"))[:5] if source.parent.is_dir() else []
        hint = f"; NetCDF files there: {', '.join(near)}" if near else ""
        raise BayescrowdError(f"there is no file {str(source)!r} (looked from {str(Path.cwd())!r}){hint}")
    as_zarr = _is_zarr(source)
    kind = "zarr store" if as_zarr else "NetCDF file"
    if source.is_dir() and not as_zarr:
        raise BayescrowdError(f"{str(source)!r} is a folder; give the file that fit.save() wrote, e.g. 'fit.nc'")
    try:
        opened = _open_zarr(source) if as_zarr else xr.open_datatree(source, engine=_ENGINE)
    except _DAMAGED as error:
        raise BayescrowdError(
            f"{str(source)!r} is no {kind} ({error}); bayescrowd.load reads what fit.save() wrote. "
            f"For a table of labels use bayescrowd.read_labels"
        ) from error
    with opened:
        version = opened.attrs.get("bayescrowd_format")
        if version is None:
            raise BayescrowdError(
                f"{str(source)!r} is a {kind} but no result of bayescrowd (its groups: "
                f"{', '.join(opened.children) or 'none'})"
            )
        if int(version) > FORMAT:
            raise BayescrowdError(
                f"{str(source)!r} was written by a newer bayescrowd (format {int(version)}, this one reads up to "
                f"{FORMAT}); upgrade with: pip install --upgrade bayescrowd"
            )
        try:
            tree, digest = _read(opened)
            sound = digest is None or digest == _digest(tree, _root(tree))
        except _DAMAGED as error:
            raise BayescrowdError(_damaged(source, str(error))) from error
    if not sound:
        raise BayescrowdError(_damaged(source, "its content does not match the checksum that was saved with it"))
    return tree


def _read(opened: xr.DataTree) -> tuple[xr.DataTree, str | None]:
    """Read everything into memory, and the checksum that was saved along."""
    tree = opened.load().copy(deep=False)
    attrs = {str(name): _plain(value) for name, value in tree.attrs.items()}
    if _LONG in tree.children:
        attrs |= {str(name): str(value.item()) for name, value in tree[_LONG].dataset.data_vars.items()}
        tree = tree.filter(lambda node: node.name != _LONG)
    for name in str(attrs.pop("json_lists")).split():
        attrs[name] = json.loads(attrs[name])
    digest = attrs.pop(_DIGEST, None)
    tree.attrs = attrs
    tree.encoding = {}
    return tree, digest


def _damaged(source: Path, reason: str) -> str:
    return f"{str(source)!r} is damaged ({reason}): take another copy of the file, or fit and save again"


def _digest(tree: xr.DataTree, attrs: dict[str, Any]) -> str:
    """SHA-256 of all attributes and values, in a form that does not depend on how a file holds them."""
    sha = hashlib.sha256(json.dumps(attrs, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))
    for path, node in sorted((node.path, node) for node in tree.subtree):
        for name, variable in sorted(node.to_dataset(inherit=False).variables.items(), key=lambda entry: str(entry[0])):
            value = variable.to_numpy()
            sha.update(repr((path, str(name), variable.dims, value.shape)).encode("utf-8", "surrogatepass"))
            if value.dtype.kind in "iufb":
                value = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
                # A file keeps NaN, but not which of the many NaN it was.
                missing = np.isnan(value) if value.dtype.kind == "f" else np.zeros((), bool)
                sha.update(np.where(missing, np.nan, value).tobytes() if missing.any() else value.tobytes())
            elif value.dtype.kind in "OUT":
                text = "\0".join(str(part) for part in value.ravel().tolist())
                sha.update(text.encode("utf-8", "surrogatepass"))
    return sha.hexdigest()


def _path(path: Any, what: str) -> Path:
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise BayescrowdError(f"cannot {what} {path!r}: give the name of a file, e.g. 'fit.nc'")
    return Path(path).expanduser()


def _refuse_ids(tree: xr.DataTree) -> None:
    if "original_ids" not in tree.children:
        return
    problems = []
    for name, variable in tree["original_ids"].dataset.data_vars.items():
        kept = [part.value for part in variable.to_numpy() if isinstance(part, InMemory)]
        if kept:
            kinds = ", ".join(sorted({type(value).__name__ for value in kept}))
            problems.append(f"{str(name).removesuffix('_json')} ids {shorten(kept)} of type {kinds}.")
    if problems:
        headline = (
            "a file cannot hold ids of these types: map them to text, numbers, dates or tuples of those in the label "
            "table and fit again"
        )
        raise LabelError(problems_message(headline, problems))


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)


def _is_zarr(path: Path) -> bool:
    if path.suffix != _ZARR:
        return False
    if find_spec("zarr") is None:
        raise BayescrowdError(
            f'{str(path)!r} names a zarr store, and zarr is not installed: pip install "bayescrowd[zarr]", or take a '
            "NetCDF file, e.g. 'fit.nc'"
        )
    return True


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without zarr's remark that version 3 of its format has no final word on texts yet."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        yield


def _write_zarr(tree: xr.DataTree, part: Path, target: Path) -> None:
    """Write beside the target, then change places with what is there."""
    _remove(part)
    with _quietly():
        tree.to_zarr(str(part), mode="w", consolidated=False)
    old = part.with_suffix(".old")
    if target.exists():
        target.replace(old)
    part.replace(target)
    _remove(old)


def _open_zarr(source: Path) -> xr.DataTree:
    with _quietly():
        return xr.open_datatree(source, engine="zarr", consolidated=False)


def _root(tree: xr.DataTree) -> dict[str, Any]:
    return {str(name): value for name, value in tree.attrs.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
