"""Curves are drawn from an activation's data: what is not known has none, and no label is read."""

import numpy as np
import pytest

from sqp_tflite.emit import curves
from sqp_tflite.report import Activation, Form, PlanRow, Replacement, Report


def report(*rows: PlanRow, **more) -> Report:
    return Report("ok", "m", "tflm", "float32", "algebraic", plan=rows, **more)


def squareplus(layer: str, **given) -> PlanRow:
    return PlanRow(layer, Activation("squareplus", tuple(given.items())), Form.OPS, ("MUL", "ADD", "SQRT", "ADD"))


def test_squarepluses_of_one_b_share_a_curve():
    drawn = curves.curves(report(squareplus("a"), squareplus("b", b=1 / 3), squareplus("c", b=4.0)))
    assert [(curve.title, curve.layers) for curve in drawn] == [
        ("squareplus (b=4)", ("a", "c")),
        ("squareplus (b=0.333333)", ("b",)),
    ]
    for curve, b in zip(drawn, (4.0, 1 / 3), strict=True):
        # Not the six digits of the title: they would be off by 1e-7 in b already.
        np.testing.assert_allclose(curve.before, (curve.x + np.sqrt(curve.x**2 + b)) / 2, rtol=1e-15)
        assert np.abs(curve.error).max() < 2e-6


@pytest.mark.parametrize(
    "activation",
    [
        Activation("squareplus", (("b", 4.0), ("learn_b", "layer"))),
        Activation("unknown", (), "gelu"),  # The user's own, which is called as one of Keras's.
        Activation("prelu"),
        Activation("softmax"),
        Activation("algebraic_softmax"),
    ],
)
def test_what_is_not_known_has_no_curve(activation):
    was = PlanRow("a", Activation("squareplus"), Form.OPS, was=activation)
    now = PlanRow("b", activation, Form.OPS, was=Activation("gelu"))
    assert curves.curves(report(PlanRow("c", activation, Form.OPS), was, now)) == ()


def test_an_exchange_is_drawn_with_the_parameters_of_both():
    was = Activation("elu", (("alpha", 0.5),), "ELU")
    now = Activation("algebraic", (("of", "elu"), ("terms", 2), ("alpha", 0.5), ("upper", None)))
    row = PlanRow("a", now, Form.OPS, ("MUL", "ADD", "SQRT"), was=was)
    (drawn,) = curves.curves(report(row, replacements=(Replacement("a", "elu", "algebraic elu", 2, 1e-3),)))
    assert (drawn.title, drawn.now, drawn.layers) == ("elu", "algebraic elu", ("a",))
    assert drawn.before.min() == pytest.approx(-0.5, abs=1e-3)
    assert np.abs(drawn.error).max() < 1e-3


def test_a_largest_input_belongs_to_the_curve_of_exponential():
    now = Activation("algebraic", (("of", "exponential"), ("terms", 2), ("alpha", 1.0), ("upper", 3.0)))
    (drawn,) = curves.curves(report(PlanRow("a", now, Form.OPS, was=Activation("exponential"))))
    assert drawn.after.max() == pytest.approx(np.exp(3.0), rel=1e-3)
