"""Draw the picture of the README from a fit of the anaesthesia data: `python docs/picture.py`."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import bayescrowd as bc

GRADES = ["#2c7fb8", "#7fcdbb", "#fdae61", "#d7301f"]


def draw(path: Path) -> None:
    """Fit by NUTS and draw probabilities of the patients' grades and the observers' accuracy.

    Parameters
    ----------
    path : Path
        Where to write the PNG.
    """
    labels = bc.datasets.load("anesthesia")
    fit = bc.fit(labels, bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), engine="nuts", progress=False)
    probability = fit.class_probabilities()
    workers = fit.workers()
    grades = list(probability.columns)
    order = np.lexsort((-probability.max(axis=1).to_numpy(), probability.to_numpy().argmax(axis=1)))

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.6), width_ratios=(3, 1), constrained_layout=True, facecolor="white"
    )
    bottom = np.zeros(len(order))
    for grade, colour in zip(grades, GRADES, strict=True):
        height = probability[grade].to_numpy()[order]
        left.bar(range(len(order)), height, bottom=bottom, width=0.92, color=colour, label=f"grade {grade}")
        bottom += height
    left.set(xlim=(-0.6, len(order) - 0.4), ylim=(0, 1), ylabel="posterior probability", xlabel="patient")
    left.set_xticks(range(len(order)), [str(item) for item in probability.index[order]], fontsize=6)
    left.set_title("Fitness for anaesthesia of 45 patients, as five observers graded them (1979)", fontsize=10)
    left.legend(ncols=4, fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.13), frameon=False)

    position = np.arange(len(workers))[::-1]
    low, mid, high = (workers[name].to_numpy() for name in ("accuracy_lower", "accuracy", "accuracy_upper"))
    right.hlines(position, low, high, color="#2c7fb8", linewidth=4, alpha=0.5)
    right.plot(mid, position, "o", color="#253494")
    right.set_yticks(position, [f"observer {worker}" for worker in workers.index], fontsize=8)
    right.set(xlim=(0.4, 1), ylim=(-0.6, len(workers) - 0.4), xlabel="accuracy, with 89 % interval")
    right.set_title("How good each observer is", fontsize=10)
    right.grid(axis="x", alpha=0.3)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(Path(__file__).parent / "anesthesia.png")
