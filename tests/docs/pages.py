"""The Markdown pages of the repository, cut into code blocks, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
GENERATED = "<!-- Written by docs/reference.py"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)[^`]*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: what is in it, from which line on, and why it is not run."""

    language: str
    code: str
    line: int
    not_run: str | None


@dataclass(frozen=True)
class Link:
    """A link, and under which heading it stands."""

    text: str
    target: str
    line: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def is_generated(page: Path) -> bool:
    return page.read_text(encoding="utf-8").startswith(GENERATED)


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    inside: re.Match[str] | None = None
    reason: str | None = None
    body: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is None and fence:
            inside, body, start = fence, [], number + 1
        elif inside is not None and line.strip() == inside["fence"]:
            found.append(Block(inside["language"], "\n".join(body) + "\n", start, reason))
            inside = reason = None
        elif inside is not None:
            body.append(line.removeprefix(inside["indent"]))
        elif line.strip():
            marker = _NOT_RUN.match(line)
            reason = marker[1] if marker else None
    if inside is not None:
        raise ValueError(f"the block that begins in line {start - 1} never ends")
    return found


def prose(text: str) -> list[str]:
    """The lines, with those of code blocks blank and code within lines taken out."""
    lines = text.splitlines()
    for block in blocks(text):
        for number in range(block.line - 2, block.line + len(block.code.splitlines())):
            lines[number] = ""
    return [re.sub(r"(`+).+?\1", "", line) for line in lines]


def links(text: str) -> list[Link]:
    lines = text.splitlines()
    for block in blocks(text):
        for number in range(block.line - 2, block.line + len(block.code.splitlines())):
            lines[number] = ""
    whole = "\n".join(lines)
    return [
        Link(match["text"], match["target"], whole.count("\n", 0, match.start()) + 1) for match in _LINK.finditer(whole)
    ]


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return plain.replace(" ", "-")


def parts(text: str) -> dict[str, str]:
    """Anchor -> the text under that heading, up to the next heading of the same or a higher level."""
    lines = text.splitlines()
    fenced = {
        number for block in blocks(text) for number in range(block.line - 2, block.line + len(block.code.splitlines()))
    }
    headings = [
        (number, len(line) - len(line.lstrip("#")), slug(line.lstrip("#")))
        for number, line in enumerate(lines)
        if re.match(r"#{1,6} ", line) and number not in fenced
    ]
    found: dict[str, str] = {}
    for index, (number, level, anchor) in enumerate(headings):
        end = next((later for later, other, _ in headings[index + 1 :] if other <= level), len(lines))
        copies = sum(anchor == earlier for _, _, earlier in headings[:index])
        found[f"{anchor}-{copies}" if copies else anchor] = "\n".join(lines[number:end])
    return found
