"""Numbers in sentences."""

__all__ = ["count_of"]


def count_of(number: int, noun: str) -> str:
    """Say ``3 rows`` or ``1 row``.

    Parameters
    ----------
    number : int
        How many.
    noun : str
        In the singular.

    Returns
    -------
    str
        Large numbers with separators.

    Examples
    --------
    >>> count_of(1, "class"), count_of(2, "class"), count_of(1000, "item")
    ('1 class', '2 classes', '1,000 items')
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("ty"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"
