"""Ids and sentences of strangers as text that matplotlib draws as it stands: no mathematics, no missing glyphs."""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from os.path import commonprefix
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager, rcParams

__all__ = ["families", "people", "percent", "quoted", "readable", "say"]

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that show nothing, or turn around what follows."""

_NO_BREAK = "\u00a0"

_TURNS_LINES = mpl.__version_info__[:2] >= (3, 11)
"""Whether matplotlib orders letters by the rules of Unicode, and honours the marks that isolate an id."""

_PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
)
"""Fonts that have all common Chinese characters, and the usual shapes of them."""


def say(value: object) -> str:
    r"""Give one id, or one sentence, as text to draw, at its full length.

    Parameters
    ----------
    value : object
        Any id or sentence.

    Returns
    -------
    str
        Dollar signs are escaped, since a pair of them would start a formula; what has no picture is spelled out.

    Examples
    --------
    >>> print(say("a$b$<script>"))
    a\$b\$<script>
    """
    return readable([value], width=None)[0]


def readable(values: Iterable[object], width: int | None = 26) -> list[str]:
    r"""Give ids as texts to draw.

    Parameters
    ----------
    values : iterable
        Ids of any kind.
    width : int, optional
        Longest text, in columns (Chinese characters take two); longer ones lose their middle, or what they share with
        others that would look the same. None keeps them whole.

    Returns
    -------
    list of str
        In the same order; different ids stay different.

    Examples
    --------
    >>> readable(["w1", "", "an-id-of-many-characters-0017", "two\nlines"], width=16)
    ['w1', "''", 'an-id-of…rs-0017', 'two\\nlines']
    >>> readable(["model-7b-of-2023/second-prompt/o1", "model-7b-of-2023/first-prompt/o1"], width=16)
    ['mod…/second-…/o1', 'mod…/first-p…/o1']
    """
    given = [value.item() if isinstance(value, np.generic) else value for value in values]
    texts = [str(value) for value in given]
    missing = _without_glyph(frozenset("".join(texts)))
    whole = ["".join(_shown(c, missing) for c in text) if text.strip() else repr(text) for text in texts]
    short = whole if width is None else _all_shortened(whole, width)
    # Numbered where two ids look alike; a repeat of the same id is the same id.
    alike: dict[str, list[str]] = {}
    for text, key in dict.fromkeys(zip(short, map(repr, given), strict=True)):
        alike.setdefault(text, []).append(key)
    out = [
        text if len(alike[text]) == 1 else f"{text} #{alike[text].index(repr(value)) + 1}"
        for text, value in zip(short, given, strict=True)
    ]
    return [_isolated(text).replace("$", r"\$") for text in out]


def people(workers: Iterable[object], width: int = 26) -> list[str]:
    """Give ids of workers for a sentence: a number needs a word more ("worker 5 said 2").

    Parameters
    ----------
    workers : iterable
        Their ids.
    width : int
        Longest id.

    Returns
    -------
    list of str

    Examples
    --------
    >>> people(["w1", 5])
    ['w1', 'worker 5']
    """
    given = list(workers)
    shown = readable(given, width)
    return [name if isinstance(who, str) else f"worker {name}" for name, who in zip(shown, given, strict=True)]


def quoted(value: object, width: int = 26) -> str:
    """Give an id for a sentence: text in quotation marks, a number as it is.

    Parameters
    ----------
    value : object
        The id.
    width : int
        Longest text.

    Returns
    -------
    str

    Examples
    --------
    >>> quoted("w1"), quoted(1)
    ('“w1”', '1')
    """
    text = readable([value], width)[0]
    return f"“{text}”" if isinstance(value, str) else text


def percent(share: float) -> str:
    r"""Give a share in percent, without pretending that nearly all is all.

    Parameters
    ----------
    share : float
        From 0 to 1.

    Returns
    -------
    str
        The sign stays with its number at the end of a line.

    Examples
    --------
    >>> [percent(x).replace("\u00a0", " ") for x in (0.0, 0.004, 0.123, 0.998, 1.0)]
    ['0 %', '<1 %', '12 %', '>99 %', '100 %']
    """
    if not np.isfinite(share):
        return "unknown"
    number = f"{100 * share:.0f}"
    if number == "100" and share < 1 - 1e-9:
        number = ">99"
    elif number == "0" and share > 1e-9:
        number = "<1"
    return f"{number}{_NO_BREAK}%"


def families(texts: Iterable[str]) -> list[str] | None:
    """Find the fonts that some texts need.

    Parameters
    ----------
    texts : iterable of str
        What is drawn.

    Returns
    -------
    list of str or None
        The usual font, then the ones that fill its gaps; None where the usual font has all characters.
    """
    found = _found(frozenset("".join(texts)))
    more = [name for name, _ in Counter(name for name in found.values() if name).most_common()]
    return [*rcParams["font.family"], *more] if more else None


def _shown(character: str, missing: frozenset[str]) -> str:
    if unicodedata.category(character) in _HIDDEN or character in missing:
        return character.encode("unicode_escape").decode()
    return character


def _isolated(text: str) -> str:
    """Keep an id that is written from right to left from turning around the words beside it."""
    if _TURNS_LINES and any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        return f"\u2068{text}\u2069"
    return text


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else unicodedata.category(c) != "Cf" for c in text)


def _all_shortened(texts: list[str], width: int) -> list[str]:
    """Shorten texts; of those that would look alike, keep what differs."""
    out = {text: _shortened(text, width) for text in texts}
    for _ in range(3):  # names that were set apart may look like others
        alike: dict[str, list[str]] = {}
        for text, short in out.items():
            alike.setdefault(short, []).append(text)
        groups = [group for group in alike.values() if len(group) > 1]
        if not groups:
            break
        for group in groups:
            out |= dict(zip(group, _apart(group, width), strict=True))
    return [out[text] for text in texts]


def _apart(texts: list[str], width: int) -> list[str]:
    """Shorten different texts that begin and end alike: some of what they share, and what they do not."""
    start = len(commonprefix(texts))
    end = min(len(commonprefix([text[::-1] for text in texts])), min(map(len, texts)) - start)
    start, end = max(start - 1, 0), max(end - 1, 0)  # with a character before and after
    longest = max(_columns(text[start : len(text) - end]) for text in texts)
    # Recognised by both ends, as far as what differs leaves room for them.
    side = max(width // 6, (width - 2 - longest) // 2)
    head, tail = _cut(texts[0][:start], side), _cut(texts[0][::-1][:end], side)[::-1]
    room = width - _columns(head + tail) - 2
    if room < min(longest, 5) or not start + end:  # nothing to gain
        return [_shortened(text, width) for text in texts]
    inner = []
    for text in texts:
        rest = text[start : len(text) - len(tail)]
        differs = text[start : len(text) - end]
        inner.append(differs if _columns(differs) > room else _cut(rest, room))
    before = "…" if len(head) < start else ""
    return [
        f"{head}{before}{part}{'' if text.endswith(part + tail) else '…'}{tail}"
        for text, part in zip(texts, _all_shortened(inner, room), strict=True)
    ]


def _cut(text: str, width: int) -> str:
    """Give the beginning of a text."""
    end = 0
    while end < len(text) and _columns(text[: end + 1]) <= width:
        end += 1
    return text[:end]


def _shortened(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    head, tail = "", ""
    for left, right in zip(text, reversed(text), strict=True):
        if _columns(head + left + tail) >= width:
            break
        head += left
        if _columns(head + right + tail) >= width:
            break
        tail = right + tail
    return f"{head}…{tail}"


def _without_glyph(characters: frozenset[str]) -> frozenset[str]:
    return frozenset(c for c, name in _found(characters).items() if name is None)


def _found(characters: frozenset[str]) -> dict[str, str | None]:
    """Name the font of every character that the usual font lacks; None where no installed font has it."""
    beyond = frozenset(c for c in characters if ord(c) > 126 and unicodedata.category(c) not in _HIDDEN)
    if not beyond:
        return {}
    usual = font_manager.findfont(font_manager.FontProperties(family=rcParams["font.family"]))
    return _search(beyond, usual)


@functools.lru_cache(maxsize=256)
def _search(characters: frozenset[str], usual: str) -> dict[str, str | None]:
    have = _characters_of(usual)
    wanted: set[str] = {c for c in characters if have is not None and ord(c) not in have}
    found: dict[str, str | None] = dict.fromkeys(wanted)
    for name in _fonts() if wanted else ():
        # By name, as matplotlib will look for it: several files may bear one name.
        path = font_manager.findfont(font_manager.FontProperties(family=name))
        have = frozenset() if path == usual else _characters_of(path) or frozenset()
        covered = {c for c in wanted if ord(c) in have}
        found |= dict.fromkeys(covered, name)
        wanted -= covered
        if not wanted:
            break
    return found


def _fonts() -> list[str]:
    """List upright installed fonts, sans-serif ones first, less those for formulas, colour pictures and last resort."""
    names = {
        entry.name
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal"
        and (str(entry.weight) in ("400", "normal", "regular", "book") or entry.name in _PREFERRED)
    }
    no_text = ("cm", "STIXSize", "STIXNon", "LastResort", "Last Resort", ".")
    kept = [name for name in names if not name.startswith(no_text) and "Emoji" not in name]
    return sorted(kept, key=lambda name: (name not in _PREFERRED, "Sans" not in name, "Mono" in name, name))


@functools.lru_cache(maxsize=32)
def _characters_of(path: str) -> frozenset[int] | None:
    try:
        font: Any = font_manager.get_font(path)
        return frozenset(font.get_charmap()) if font.scalable else None
    except (OSError, RuntimeError):  # a broken font file of the machine is not our user's trouble
        return None
