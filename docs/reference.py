"""Write the reference pages from the docstrings: `python docs/reference.py`; with `--check` only say which are stale.

One page per model (``docs/models/``) and per engine (``docs/engines/``), one for all baselines. Nothing is stated here
that the package does not state: docstrings, priors, settings, signatures, and README's two tables of engines.
"""

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docstrings import fields, inline, markdown, options, sections, table

import bayescrowd as bc
from bayescrowd import inference, models
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import Engine
from bayescrowd.model import Model

ROOT = Path(__file__).resolve().parents[1]
DOCS = Path(__file__).resolve().parent
HEAD = "<!-- Written by docs/reference.py from the docstrings (make docs); do not edit. -->\n<!-- fmt: off -->"
NOT_RUN = "<!-- not run: {} -->"

_METHOD = re.compile(r"`(bayescrowd\.(?:moments|kernels)\.\w+)`")


def _source(function: Callable[..., Any]) -> str:
    """Give the source of a method without its docstring."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    first = ast.parse("\n".join(lines)).body[0]
    if isinstance(first, ast.FunctionDef) and ast.get_docstring(first) is not None:
        statement = first.body[0]
        del lines[statement.lineno - 1 : statement.end_lineno]
    return "\n".join(lines)


def _titled(text: str) -> tuple[str, str]:
    """Split the first line of a module's docstring, "Name: what it is.", and drop it from the text."""
    first, _, rest = text.partition("\n")
    return first, rest.strip("\n")


def _refusal(engine: Engine, model: Model) -> str:
    try:
        engine.check(model, engine.settings())
    except EngineError as error:
        return str(error)
    return ""


def _first_line(engine: str) -> str:
    module = importlib.import_module(f"bayescrowd.inference.{engine.replace('-', '_')}")
    return (inspect.getdoc(module) or "").partition("\n")[0]


def model_page(name: str) -> str:
    """Write the page of a model.

    Parameters
    ----------
    name : str
        As in `bayescrowd.models.names`.

    Returns
    -------
    str
        Markdown.
    """
    model = models.get(name)
    module = sys.modules[model.__module__]
    first, rest = _titled(inspect.getdoc(module) or "")
    title, _, sentence = first.partition(": ")
    told = sections(rest)
    of_class = sections(inspect.getdoc(model) or "")
    path = f"models/{name.replace('-', '_')}.py"
    priors = {field.name: field.default for field in dataclasses.fields(model)}
    parts = [
        HEAD,
        f"# {title}",
        f"{inline(sentence[:1].upper() + sentence[1:])}",
        f"`bc.{model.__name__}(...)`, or `{name!r}` by name; the file to read is [{path}](../../{path}).",
    ]
    for heading, body in told.items():
        if heading and heading != "References":
            parts += [f"## {heading}", markdown(body)]
    parts += [
        "## Priors",
        "Arguments of the class. A number holds for all entries; an array has the dims in brackets.",
        options("prior", of_class["Parameters"], priors),
        "## Engines",
        _engines_of(model()),
        "## Program",
        f"The model as NumPyro runs it (`{model.__name__}().program`), beside the two parts that every engine uses. "
        "Docstrings are left out here.",
        NOT_RUN.format(f"quoted from {path}"),
        "```python\n" + "\n\n".join(map(_source, (model.parameters, model.log_response, model.program))) + "\n```",
        "## Examples",
        markdown(of_class["Examples"]),
        "## References",
        markdown(told["References"]),
        "[All pages](../index.md) · [which engine when](../which-engine.md) · [conventions](../conventions.md) · "
        "[errata of the papers](../errata.md)",
    ]
    return "\n\n".join(parts) + "\n"


def _engines_of(model: Model) -> str:
    rows, refused = [], {}
    for name in inference.names():
        refusal = _refusal(inference.get(name), model)
        link = f"[`{name}`](../engines/{name}.md)"
        if refusal:
            refused[link] = refusal
        else:
            rows.append([link, inline(_first_line(name))])
    lines = [table(["engine", "what it is"], rows)]
    if refused:
        lines.append("Not for this model:")
        lines.append("\n".join(f"- {link}: {refusal}." for link, refusal in refused.items()))
    return "\n\n".join(lines)


def engine_page(name: str) -> str:
    """Write the page of an engine.

    Parameters
    ----------
    name : str
        As in `bayescrowd.inference.names`.

    Returns
    -------
    str
        Markdown.
    """
    engine = inference.get(name)
    module = importlib.import_module(f"bayescrowd.inference.{name.replace('-', '_')}")
    first, rest = _titled(inspect.getdoc(module) or "")
    told = sections(rest)
    settings = {field.name: field.default for field in dataclasses.fields(engine.settings)}
    described = sections(inspect.getdoc(engine.settings) or "")
    references = [told["References"]]
    parts = [HEAD, f"# `{name}`", f"*{inline(first)}*", _when(name), markdown(told[""])]
    for method in dict.fromkeys(_METHOD.findall(rest)):
        title, body = _titled(inspect.getdoc(importlib.import_module(method)) or "")
        of_method = sections(body)
        parts += [f"## Method: `{method}`", inline(title), markdown(of_method[""])]
        references += [of_method[heading] for heading in ("References",) if heading in of_method]
    parts += [
        "## Options",
        f'Named in the call: `bc.fit(labels, engine="{name}", ...)`. An unknown one is an error that lists these.',
        options("option", described["Parameters"], settings),
        "## Models",
        _models_of(engine),
        "A start (`init=`) " + ("may be given; `bc.fit` says which there are." if engine.starts else "is not needed."),
        "## References",
        "\n\n".join(map(markdown, references)),
        "[All pages](../index.md) · [which engine when, with measured times](../which-engine.md) · "
        "[groups of a result](../conventions.md#the-result)",
    ]
    return "\n\n".join(parts) + "\n"


def _when(name: str) -> str:
    """Quote what README's tables of engines say of one."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    headings: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"\|[-:| ]+\|", following):
            headings = cells
        elif line.startswith(f"| `{name}` |") and headings[:1] == ["engine"]:
            said = zip(headings[1:], cells[1:], strict=True)
            return "\n".join(f"- {heading[:1].upper()}{heading[1:]}: {cell}" for heading, cell in said)
    raise ValueError(f"README.md has no row of {name!r} in a table of engines: say there what it gives, and when")


def _models_of(engine: Engine) -> str:
    found = {name: _refusal(engine, models.get(name)()) for name in models.names()}
    lines = [f"- [`{name}`](../models/{name}.md): {refusal or 'yes'}" for name, refusal in found.items()]
    return "\n".join(lines)


def baselines_page() -> str:
    """Write the page of all baselines.

    Returns
    -------
    str
        Markdown.
    """
    lead = (inspect.getdoc(bc.baselines) or "").partition("\n")[0]
    names = list(bc.baselines.__all__)
    summary = {name: (inspect.getdoc(getattr(bc.baselines, name)) or "").partition("\n")[0] for name in names}
    parts = [
        HEAD,
        "# Baselines",
        inline(lead),
        "Errors and times of all of them on real sets, beside what papers print: [paper-tables.md](paper-tables.md). "
        "Where a printed figure is wrong: [errata.md](errata.md). [All pages](index.md).",
        table(["`bc.baselines.`", "what it does"], [[f"[`{name}`](#{name})", inline(summary[name])] for name in names]),
    ]
    for name in names:
        parts += _baseline(name)
    return "\n\n".join(parts) + "\n"


def _baseline(name: str) -> Iterator[str]:
    function = getattr(bc.baselines, name)
    told = sections(inspect.getdoc(function) or "")
    signature = inspect.signature(function).parameters.values()
    defaults = {("**" if entry.kind is entry.VAR_KEYWORD else "") + entry.name: entry.default for entry in signature}
    yield f"## `{name}`"
    yield f"*{inline((inspect.getdoc(sys.modules[function.__module__]) or '').partition(chr(10))[0])}*"
    yield markdown(told.pop(""))
    for heading, body in told.items():
        if heading == "Parameters":
            yield options("argument", body, defaults)
        elif heading in ("Returns", "Raises", "Warns"):
            yield f"**{heading}**"
            yield "\n".join(f"- `{field.names}`: {inline(field.meaning)}" for field in fields(body))
        else:
            yield f"**{heading}**\n\n{markdown(body)}"


def pages() -> dict[Path, str]:
    """Write all pages.

    Returns
    -------
    dict
        Path -> Markdown.
    """
    found = {DOCS / "models" / f"{name}.md": model_page(name) for name in models.names()}
    found |= {DOCS / "engines" / f"{name}.md": engine_page(name) for name in inference.names()}
    return found | {DOCS / "baselines.md": baselines_page()}


def stale(wanted: Mapping[Path, str]) -> list[str]:
    """List pages that are missing, out of date, or of nothing that is there.

    Parameters
    ----------
    wanted : dict
        Path -> Markdown.

    Returns
    -------
    list of str
        Paths from the root of the repository.
    """
    there = {path for folder in ("models", "engines") for path in (DOCS / folder).glob("*.md")}
    old = {path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text}
    return sorted(str(path.relative_to(ROOT)) for path in old | (there - set(wanted)))


def main(arguments: list[str] | None = None) -> None:
    """Write the pages, or check them.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line.
    """
    parser = argparse.ArgumentParser(description="Write the reference pages from the docstrings.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where pages are out of date")
    check = parser.parse_args(arguments).check
    wanted = pages()
    changed = stale(wanted)
    if check:
        sys.exit(f"out of date (run python docs/reference.py): {', '.join(changed)}" if changed else 0)
    for path in (ROOT / name for name in changed):
        if path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    sys.stdout.write(f"{len(wanted)} pages, changed: {', '.join(changed) or 'none'}\n")


if __name__ == "__main__":
    main()
