"""Draws the paper's two figures, and one for half precision, from the library's own functions, as SVG.

python -m benchmarks.paper_figures [--folder docs/figures]

The same versions draw the same bytes: fixed identifiers, no date. Text is drawn as paths, so no font is needed.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from matplotlib import pyplot as plt

import sqp_keras
from tools.plotting import BLACK, BLUE, GREY, RED, SETTINGS


def derivatives(function: Callable, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns value, slope and second derivative of an elementwise function, by the gradients that it really has."""
    point = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(point)
        with tf.GradientTape() as inner:
            inner.watch(point)
            y = function(point)
        slope = inner.gradient(y, point)
    return y.numpy(), slope.numpy(), outer.gradient(slope, point).numpy()


def figure_shape() -> Any:
    """Returns the paper's Figure 1: squareplus at two b against softplus, with both derivatives."""
    x = np.linspace(-6, 6, 601)
    curves = (
        ("softplus", keras.ops.softplus, BLACK, "-"),
        ("squareplus, b = 4 ln(2)²", lambda v: sqp_keras.squareplus(v, sqp_keras.B_VALUE), BLUE, "--"),
        ("squareplus, b = 4", lambda v: sqp_keras.squareplus(v, sqp_keras.B_CURVATURE), RED, "-."),
    )
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.9), layout="constrained")
    for name, function, colour, dashes in curves:
        for axis, values in zip(axes, derivatives(function, x), strict=True):
            axis.plot(x, values, dashes, color=colour, label=name)
    for axis, title in zip(axes, ("value", "first derivative", "second derivative"), strict=True):
        axis.set(title=title, xlabel="x", xlim=(-6, 6))
    axes[0].legend(loc="upper left")
    return figure


def figure_difference() -> Any:
    """Returns the paper's Figure 2: what is left after ReLU is taken away, in float32 and on a logarithmic axis."""
    x = np.linspace(-100, 100, 4001).astype(np.float32)
    with np.errstate(over="ignore"):
        naive = np.log(np.float32(1) + np.exp(x))
    stable = keras.ops.convert_to_numpy(keras.ops.softplus(x))
    small_b = keras.ops.convert_to_numpy(sqp_keras.squareplus(x, sqp_keras.B_VALUE))
    curves = (
        ("softplus, naive: log(1 + exp(x))", naive, "#bbbbbb", "-", 6.0),
        ("softplus, with its special cases", stable, BLACK, "-", 1.2),
        ("squareplus, b = 4 ln(2)²", small_b, BLUE, "--", 1.6),
        ("squareplus, b = 4", keras.ops.convert_to_numpy(sqp_keras.squareplus(x)), RED, "-.", 1.6),
    )
    figure, axis = plt.subplots(figsize=(8.4, 3.6), layout="constrained")
    for name, values, colour, dashes, width in curves:
        difference = (values - np.maximum(x, 0)).astype(np.float64)
        difference[~(difference > 0) | ~np.isfinite(difference)] = np.nan  # 0 and infinity have no place on this axis
        axis.plot(x, difference, dashes, color=colour, label=name, linewidth=width)
    overflow, vanish = float(x[np.isinf(naive)][0]), float(x[naive > 0][0])
    for place, text in (
        (overflow, f"naive: infinite\nfrom x = {overflow:.0f}"),
        (vanish, f"naive: 0\nto x = {vanish:.0f}"),
    ):
        axis.axvline(place, color=GREY, linewidth=0.8, linestyle=":")
        axis.text(place - 2, 1e-27, text, color=GREY, ha="right", va="bottom")
    axis.set(yscale="log", ylim=(1e-30, 10), xlim=(-100, 100), xlabel="x", ylabel="f(x) − relu(x), float32")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def figure_half() -> Any:
    """Returns relative errors in float16, value and slope: this library and Keras's built-in, over all of float16."""
    bits = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = np.sort(bits[np.isfinite(bits)])[::3]
    wide = x.astype(np.float64)
    root = np.sqrt(wide * wide + 4)
    right = (np.abs(wide) + root) / 2
    exact = np.where(wide >= 0, right, 1 / right)
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.2), layout="constrained", sharex=True, sharey=True)
    for name, function, colour in (
        ("Keras's built-in", keras.activations.squareplus, GREY),
        ("sqp_keras", sqp_keras.squareplus, RED),
    ):
        point = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(point)
            y = function(point)
        for axis, got, true in zip(axes, (y, tape.gradient(y, point)), (exact, exact / root), strict=True):
            with np.errstate(invalid="ignore"):
                error = np.abs(got.numpy().astype(np.float64) / true - 1)
            error = np.where(np.isfinite(error), np.clip(error, 1e-5, 30), 30)
            normal = true > 6.2e-5  # below, float16 itself has fewer digits
            axis.plot(wide[normal], error[normal], ".", markersize=1.2, color=colour, label=name, rasterized=True)
    for axis, title in zip(axes, ("value", "slope"), strict=True):
        axis.set(xscale="symlog", yscale="log", xlim=(-8e4, 8e4), ylim=(1e-5, 50), xlabel="x, float16", title=title)
        axis.set_xticks([-1e4, -1e2, -1, 1, 1e2, 1e4], ["−10⁴", "−100", "−1", "1", "100", "10⁴"])
        axis.axhline(2.0**-11, color=BLACK, linewidth=0.8, linestyle=":")
    axes[1].text(-6e4, 2.0**-11 * 1.3, "half a unit in\nthe last place", fontsize=7)
    axes[0].set_ylabel("relative error (top: infinite)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, markerscale=8)
    return figure


FIGURES = {"shape": figure_shape, "difference": figure_difference, "half-precision": figure_half}


def draw(folder: Path) -> list[Path]:
    """Writes all figures into `folder` and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    plt.switch_backend("svg")  # needs no display
    with plt.rc_context(SETTINGS):
        for name, make in FIGURES.items():
            figure = make()
            path = folder / f"{name}.svg"
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
            plt.close(figure)
            paths.append(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the paper's figures as SVG.")
    parser.add_argument("--folder", type=Path, default=Path("docs/figures"))
    for path in draw(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
