"""Data sets by name: ``bayescrowd.datasets.list()`` and ``bayescrowd.datasets.load(name)``."""

import os

import pandas as pd

from bayescrowd.data.catalog import available, open_dataset
from bayescrowd.data.labels import CrowdLabels

__all__ = ["list", "load"]


def list(folder: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Which data sets there are.

    Parameters
    ----------
    folder : path, optional
        A folder that holds ``NAME/labels.csv``; by default the one that the environment variable ``BAYESCROWD_DATA``
        names, if it is set.

    Returns
    -------
    DataFrame
        name, task, items, workers, labels, classes, truth (is it known for some items) and where: ``shipped`` with
        the package, ``download`` (on first use, with checksum), or ``local``.

    Examples
    --------
    >>> list().name.head(2).tolist()
    ['anesthesia', 'caries']
    """
    return available(folder)


def load(name: object, folder: str | os.PathLike[str] | None = None, download: bool = True) -> CrowdLabels:
    """Load a data set; its truth, if there is any, rides along as ``labels.truth``, which no fit reads.

    Parameters
    ----------
    name : str or path
        A name of :func:`list`, or a folder that holds ``labels.csv`` (item, worker, label) and perhaps ``truth.csv``
        (item, label).
    folder : path, optional
        Where to find ``NAME/labels.csv``, and nowhere else. By default: shipped with the package, then the folder
        that the environment variable ``BAYESCROWD_DATA`` names, then pooch's cache, then download.
    download : bool
        Whether the net may be used.

    Returns
    -------
    CrowdLabels
        Repeated rows are kept: in these sets they are real.

    Raises
    ------
    DatasetError
        If there is no such set, or it cannot be had; says what to do.

    Examples
    --------
    >>> load("anesthesia")
    CrowdLabels: 315 labels on 45 items by 5 workers; 4 classes 1, 2, 3, 4
    """
    return open_dataset(name, folder, download)
