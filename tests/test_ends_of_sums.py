"""What an activation never passes, its sum does not pass on any interpreter; most clips cost no operator."""

import numpy as np
import pytest
import tensorflow as tf

import models
from sqp_keras.family.algebraic import evaluate
from sqp_keras.family.coefficients import POSITIVE, above_zero, find
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters

WIDE = np.concatenate([-np.geomspace(1e6, 1e-6, 2001), [0.0], np.geomspace(1e-6, 1e6, 2001)]).astype(np.float32)
ENDS = {
    "softplus": (0.0, np.inf, "ADD"),
    "log_sigmoid": (-np.inf, 0.0, "MINIMUM"),
    "sigmoid": (0.0, 1.0, "MINIMUM"),
    "tanh": (-1.0, 1.0, "ADD"),
    "softsign": (-1.0, 1.0, "ADD"),
    "exponential": (0.0, np.inf, "ADD"),
}


@pytest.fixture(scope="module")
def files():
    """Each sum behind an addition, as TensorFlow's converter writes it."""

    def made(of):
        chosen = find(of, None, 1.0, 3.0 if of == "exponential" else None)
        return models.converted(lambda x: evaluate(x + tf.zeros(len(WIDE)), chosen), (1, len(WIDE)))

    return {of: made(of) for of in ENDS}


@pytest.mark.parametrize("of", ENDS)
def test_the_file_keeps_the_ends_on_every_interpreter(files, of):
    low, high, last = ENDS[of]
    assert [op.name for op in read(files[of]).main.ops][-1] == last
    for runtime in ("tflm", "litert", "tflite-runtime"):
        if interpreters.installed(runtime):
            (values,) = interpreters.run(runtime, files[of], (WIDE[None],)).values
            assert values.min() >= low and values.max() <= high, runtime


@pytest.mark.parametrize("of", POSITIVE)
def test_a_positive_sum_is_above_zero_in_the_file_and_costs_one_operator_at_most(files, of):
    chosen = above_zero(of, find(of, None, 1.0, 3.0 if of == "exponential" else None), 3.0)
    file = models.converted(lambda x: evaluate(x + tf.zeros(len(WIDE)), chosen), (1, len(WIDE)))
    assert len(read(file).main.ops) <= len(read(files[of]).main.ops) + 1
    for runtime in ("tflm", "litert", "tflite-runtime"):
        if interpreters.installed(runtime):
            (values,) = interpreters.run(runtime, file, (WIDE[None],)).values
            assert values.min() > 0, runtime
