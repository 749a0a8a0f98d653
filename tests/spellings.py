"""Activations as programs spell them in TFLite files: TensorFlow, JAX, PyTorch, and by hand."""

from __future__ import annotations

import numpy as np

from written import Written

ABOVE = [-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05]
ABOVE += [-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02]
BELOW = [-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03]
BELOW += [-1.42647390514189e-02]
"""Numerator (times x) and denominator of erf in x*x, as compilers write it in float32; the clip is at 4."""


class Speller:
    """Writes expressions of one tensor; numbers become constants."""

    def __init__(self):
        self.model = Written()
        self.x = self.model.value(1, 4, name="x")

    def __call__(self, op, *operands, dtype="float32", **options):
        indices = [self.model.constant(one, "c") if isinstance(one, float) else one for one in operands]
        if dtype == "bool":
            index = self.model.value(1, 4, dtype="bool")
            from sqp_tflite.flatbuffer.edit import NewOp

            self.model.editor.add_op(NewOp(op, tuple(indices), (index,)))
            return index
        table = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions", "DIV": "DivOptions"}.get(op, "")
        return self.model.op(op, *indices, table="GeluOptions" if op == "GELU" else table, **options)


def _softplus(w, x):
    return w("LOG", w("ADD", w("EXP", x), 1.0))


def _logaddexp(w, x):
    delta = w("SUB", x, 0.0)
    tail = w("LOG", w("ADD", w("EXP", w("NEG", w("ABS", delta))), 1.0))
    return w(
        "SELECT_V2", w("NOT_EQUAL", delta, delta, dtype="bool"), w("ADD", x, 0.0), w("ADD", w("MAXIMUM", x, 0.0), tail)
    )


def _thresholded(w, x):
    return w(
        "SELECT_V2", w("GREATER", x, 20.0, dtype="bool"), x, w("LOG", w("ADD", 1.0, w("EXP", w("MINIMUM", x, 20.0))))
    )


def _sigmoid_of_exp(w, x):
    return w("DIV", 1.0, w("ADD", w("EXP", w("NEG", x)), 1.0))


def _expm1(w, x):
    return w("SUB", w("EXP", w("MINIMUM", x, 0.0)), 1.0)


def _selected_elu(w, x, alpha=1.0, scale=None):
    low = _expm1(w, x)
    low = low if alpha == 1.0 else w("MUL", low, alpha)
    y = w("SELECT_V2", w("GREATER", x, 0.0, dtype="bool"), x, low)
    return y if scale is None else w("MUL", y, scale)


def _added_elu(w, x, alpha=1.0, scale=None):
    y = w("ADD", w("MAXIMUM", x, 0.0), w("MINIMUM", w("MUL", w("SUB", w("EXP", x), 1.0), alpha), 0.0))
    return y if scale is None else w("MUL", scale, y)


def _gelu_tanh(w, x):
    cube = w("MUL", w("MUL", x, x), x)
    inner = w("MUL", w("ADD", x, w("MUL", cube, 0.044715)), 0.7978845608028654)
    return w("MUL", w("MUL", 0.5, x), w("ADD", w("TANH", inner), 1.0))


def _gelu_power(w, x):
    inner = w("MUL", 0.7978846, w("ADD", x, w("MUL", 0.044715, w("POW", x, 3.0))))
    return w("MUL", x, w("MUL", 0.5, w("ADD", 1.0, w("TANH", inner))))


def _gelu_polynomial(w, x):
    t = w("MAXIMUM", w("MINIMUM", w("MUL", x, 0.7071067811865476), 4.0), -4.0)
    square, sums = w("MUL", t, t), []
    for coefficients in (ABOVE, BELOW):
        total = coefficients[0]
        for coefficient in coefficients[1:]:
            total = w("ADD", w("MUL", square, total), coefficient)
        sums.append(total)
    erf = w("DIV", w("MUL", t, sums[0]), sums[1])
    return w("MUL", w("MUL", x, 0.5), w("ADD", erf, 1.0))


SPELLINGS = {
    ("softplus", "TensorFlow"): _softplus,
    ("softplus", "JAX"): _logaddexp,
    ("softplus", "PyTorch"): _thresholded,
    ("sigmoid", "TensorFlow"): lambda w, x: w("LOGISTIC", x),
    ("sigmoid", "JAX"): _sigmoid_of_exp,
    ("sigmoid", "by tanh"): lambda w, x: w("MUL", w("ADD", w("TANH", w("MUL", x, 0.5)), 1.0), 0.5),
    ("tanh", "TensorFlow"): lambda w, x: w("TANH", x),
    ("tanh", "by sigmoid"): lambda w, x: w("SUB", w("MUL", w("LOGISTIC", w("MUL", x, 2.0)), 2.0), 1.0),
    ("silu", "TensorFlow"): lambda w, x: w("MUL", x, w("LOGISTIC", x)),
    ("silu", "JAX"): lambda w, x: w("MUL", x, _sigmoid_of_exp(w, x)),
    ("silu", "PyTorch"): lambda w, x: w("DIV", x, w("ADD", 1.0, w("EXP", w("NEG", x)))),
    ("mish", "TensorFlow"): lambda w, x: w("MUL", x, w("TANH", _softplus(w, x))),
    ("mish", "JAX"): lambda w, x: w("MUL", x, w("TANH", _logaddexp(w, x))),
    ("mish", "PyTorch"): lambda w, x: w("MUL", w("TANH", _thresholded(w, x)), x),
    ("elu", "TensorFlow"): lambda w, x: w("ELU", x),
    ("elu", "JAX"): _selected_elu,
    ("elu", "PyTorch"): _added_elu,
    ("elu 0.3", "JAX"): lambda w, x: _selected_elu(w, x, 0.3),
    ("selu", "JAX"): lambda w, x: _selected_elu(w, x, 1.6732632, 1.0507010),
    ("selu", "PyTorch"): lambda w, x: _added_elu(w, x, 1.6732632, 1.0507010),
    ("log_sigmoid", "TensorFlow"): lambda w, x: w("NEG", _softplus(w, w("NEG", x))),
    ("log_sigmoid", "PyTorch"): lambda w, x: w("LOG", w("LOGISTIC", x)),
    ("gelu", "TensorFlow"): lambda w, x: w("GELU", x, approximate=False),
    ("gelu", "PyTorch"): _gelu_polynomial,
    ("gelu_tanh", "TensorFlow"): lambda w, x: w("GELU", x, approximate=True),
    ("gelu_tanh", "JAX"): _gelu_power,
    ("gelu_tanh", "PyTorch"): _gelu_tanh,
    ("squareplus 4", "PyTorch"): lambda w, x: w("MUL", w("ADD", x, w("SQRT", w("ADD", w("MUL", x, x), 4.0))), 0.5),
    ("squareplus 4", "JAX"): lambda w, x: w("DIV", w("ADD", x, w("SQRT", w("ADD", w("SQUARE", x), 4.0))), 2.0),
    ("squareplus 0.5", "stable"): lambda w, x: w(
        "ADD",
        w("MAXIMUM", x, 0.0),
        w("MUL", w("SUB", w("SQRT", w("ADD", w("MUL", x, x), 0.5)), w("ABS", x)), 0.5),
    ),
}
"""(name with its parameter, who spells it so): writes it with a speller, from the tensor x."""


def truth(name: str, x: np.ndarray) -> np.ndarray:
    """The activation in float64, independent of the package."""
    import math

    word, _, parameter = name.partition(" ")
    softplus = np.logaddexp(x, 0.0)
    erf = np.vectorize(math.erf)
    alpha = {"elu": 1.0, "selu": 1.6732632423543772}.get(word, 1.0) if not parameter else float(parameter)
    elu = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))
    return {
        "softplus": lambda: softplus,
        "sigmoid": lambda: np.exp(-np.logaddexp(-x, 0.0)),
        "tanh": lambda: np.tanh(x),
        "silu": lambda: x * np.exp(-np.logaddexp(-x, 0.0)),
        "mish": lambda: x * np.tanh(softplus),
        "elu": lambda: elu,
        "selu": lambda: 1.0507009873554805 * elu,
        "log_sigmoid": lambda: -np.logaddexp(-x, 0.0),
        "gelu": lambda: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "squareplus": lambda: (x + np.sqrt(x * x + float(parameter or 4))) / 2,
    }[word]()
