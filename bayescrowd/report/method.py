"""What a page says about how a result was made, and in which words."""

import xarray as xr

from bayescrowd.errors import count_of
from bayescrowd.report.markup import Markup, element, join, table
from bayescrowd.results.tree import json_attribute, title

__all__ = ["heading", "how", "words"]

_MODELS = {
    "dawid-skene": "Every worker has a confusion matrix: for each true class, how often they give each label. The same "
    "holds on all items. True classes, matrices and the shares of the classes are estimated together.",
    "idbla": "Every item has a level of difficulty besides its class, and every worker a confusion matrix for each "
    "level. Classes, levels, matrices and shares are estimated together.",
    "fixed-idbla": "Every item has a level of difficulty besides its class: on easy items workers are mostly right, on "
    "hard ones they guess, and in between each has a confusion matrix. All of it is estimated together.",
}

_WORDS = (
    ("item", "one thing that was labelled"),
    ("worker", "who labelled: a person, a program, a language model"),
    ("label", "what a worker said about an item"),
    ("class", "what is true of the item; nobody saw it, it is inferred"),
    ("probability", "how sure the model is of a class, given all labels and how good the workers turned out to be"),
    ("accuracy", "how often a worker's label would be the class, over items as they come"),
    ("informativeness", "what a label of this worker tells about the class, in bits; 0 for one who answers blindly"),
    ("spammer", "a worker whose labels tell (almost) nothing about the class"),
    ("adversary", "a worker who is right less often than guessing would be; useful all the same, once known"),
    ("gold", "a class that was known beforehand and that the fit was told"),
)


def heading(tree: xr.DataTree) -> Markup:
    """Say what the page is about.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup
        Title and sizes.
    """
    sizes = tree["observed_data"].dataset.sizes
    what = (
        f"{count_of(sizes['annotation'], 'label')} by {count_of(sizes['worker'], 'worker')} on "
        f"{count_of(sizes['item'], 'item')}, {count_of(sizes['class'], 'class')}"
    )
    return join([element("h1", what), element("p", f"What they say together, by {title(tree)}.", class_="soft")])


def how(tree: xr.DataTree, seed: int = 0) -> Markup:
    """Say how the result was made, so that it can be made again.

    Parameters
    ----------
    tree : DataTree
        A result.
    seed : int
        Of what this page draws at random.

    Returns
    -------
    Markup
        Sentences, and the settings to unfold.
    """
    parts: list[object] = []
    if str(tree.attrs["model"]) in _MODELS and tree.attrs["model_class"]:
        parts.append(element("p", _MODELS[str(tree.attrs["model"])]))
    parts += [element("p", str(reason)) for reason in tree.attrs.get("choice", [])]
    parts += [element("p", str(tree.attrs["status_sentence"]))]
    description = json_attribute(tree, "model_description", {})
    settings = json_attribute(tree, "settings", {})
    versions = json_attribute(tree, "versions", {})
    rows = [("model", tree.attrs["model"]), ("engine", tree.attrs["engine"])]
    rows += [("seed of the fit", tree.attrs["seed"]), ("seed of this page (replications and resampling)", seed)]
    rows += [(f"prior: {name}", _short(value)) for name, value in description.items()]
    rows += [(f"setting: {name}", _short(value)) for name, value in settings.items()]
    rows += [(f"version: {name}", value) for name, value in versions.items()]
    rows += [("seconds", f"{float(tree.attrs['seconds']):.1f}")]
    unfold = element("details", element("summary", "Model, settings and versions"), table(("what", "value"), rows))
    notes = [*tree.attrs.get("label_notes", []), *tree.attrs.get("notes", [])]
    if notes:
        noted = element("ul", *(element("li", str(note)) for note in notes))
        parts.append(element("details", element("summary", "What was noted while the labels were read"), noted))
    return join([*parts, unfold])


def words() -> Markup:
    """Explain the words of the page.

    Returns
    -------
    Markup
        A table to unfold.
    """
    return element("details", element("summary", "What the words mean"), table(("word", "meaning"), _WORDS))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} …"
