"""Saving and loading result trees as NetCDF files: no pickle, any ids, readable by xarray and ArviZ alone."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bayescrowd.errors import BayescrowdError
from bayescrowd.results.build import FORMAT

__all__ = ["load", "save"]

_ENGINE: Final = "h5netcdf"
_LONG = "long_attributes"
_LONGEST = 32_000
"""HDF5 refuses attributes above 64 kB (UTF-8 takes up to four bytes a character, most ids take one or two)."""


def save(tree: xr.DataTree, path: str | Path) -> None:
    """Write a result to a NetCDF file.

    Parameters
    ----------
    tree : DataTree
        The result.
    path : str or Path
        Where to; the folder must exist, an existing file is replaced.

    Raises
    ------
    BayescrowdError
        Where the folder does not exist or the path is a folder.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise BayescrowdError(f"cannot save to {str(target)!r}: it is a folder; give a file name, e.g. 'fit.nc'")
    if not target.parent.is_dir():
        raise BayescrowdError(
            f"cannot save to {str(target)!r}: there is no folder {str(target.parent)!r}; create it first"
        )
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
    copy.attrs = attrs
    if long:
        copy[_LONG] = xr.DataTree(xr.Dataset(long))
    # Written beside the target first, so that a failure never leaves half a file in its place.
    part = target.with_name(f".{target.name}.part")
    try:
        copy.to_netcdf(str(part), engine=_ENGINE)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


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
        Where there is no such file, it is no result of bayescrowd, or a newer version wrote it.
    """
    source = Path(path).expanduser()
    if not source.exists():
        near = sorted(str(found) for found in source.parent.glob("*.nc"))[:5] if source.parent.is_dir() else []
        hint = f"; NetCDF files there: {', '.join(near)}" if near else ""
        raise BayescrowdError(f"there is no file {str(source)!r} (looked from {str(Path.cwd())!r}){hint}")
    if source.is_dir():
        raise BayescrowdError(f"{str(source)!r} is a folder; give the file that fit.save() wrote, e.g. 'fit.nc'")
    try:
        opened = xr.open_datatree(source, engine=_ENGINE)
    except (OSError, ValueError, KeyError) as error:
        raise BayescrowdError(
            f"{str(source)!r} is no NetCDF file ({error}); bayescrowd.load reads what fit.save() wrote. "
            f"For a table of labels use bayescrowd.read_labels"
        ) from error
    with opened:
        version = opened.attrs.get("bayescrowd_format")
        if version is None:
            raise BayescrowdError(
                f"{str(source)!r} is a NetCDF file but no result of bayescrowd (its groups: "
                f"{', '.join(opened.children) or 'none'})"
            )
        if int(version) > FORMAT:
            raise BayescrowdError(
                f"{str(source)!r} was written by a newer bayescrowd (format {int(version)}, this one reads up to "
                f"{FORMAT}); upgrade with: pip install --upgrade bayescrowd"
            )
        tree = opened.load().copy(deep=False)
    attrs = {name: _plain(value) for name, value in tree.attrs.items()}
    if _LONG in tree.children:
        attrs |= {str(name): str(value.item()) for name, value in tree[_LONG].dataset.data_vars.items()}
        tree = tree.filter(lambda node: node.name != _LONG)
    for name in str(attrs.pop("json_lists")).split():
        attrs[name] = json.loads(attrs[name])
    tree.attrs = attrs
    tree.encoding = {}
    return tree


def _root(tree: xr.DataTree) -> dict[str, Any]:
    return {str(name): value for name, value in tree.attrs.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
