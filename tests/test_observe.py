"""What activations receive is observed on real rows, with the extremes."""

import keras
import numpy as np
import pytest
from keras import layers

from replaceable import RANDOM, sequential, state
from sqp_keras.models import observe
from sqp_keras.models.sites import sites


def test_observing_leaves_the_model_alone_and_keeps_the_extremes():
    model = sequential(layers.Dense(4, "tanh", kernel_initializer="identity"), shape=(4,))
    x = RANDOM.normal(size=(300, 4)).astype("float32")
    before = state(model)[0]
    (seen,) = observe.observe(model, sites(model), x)
    assert state(model)[0] == before
    rows = np.unique(np.linspace(0, 299, observe.SAMPLES).round().astype(int))
    assert seen.x.min() == x[rows].min()
    assert seen.x.max() == x[rows].max()
    np.testing.assert_allclose(seen.y, np.tanh(seen.x), atol=1e-6)


def test_the_extremes_are_kept_among_more_values_than_are_kept():
    width = 4 * observe.PER_CALL // 64  # Four times as many values per call as are kept: every fourth one.
    model = sequential(layers.Activation("tanh"), shape=(width,))
    x = RANDOM.uniform(-1, 1, size=(64, width)).astype("float32")
    x[3, 5], x[7, 9] = 20.0, -30.0
    (seen,) = observe.observe(model, sites(model), x)
    assert observe.PER_CALL <= seen.x.size < x.size / 2
    assert (seen.x.max(), seen.x.min()) == (20.0, -30.0)
    assert (seen.y.max(), seen.y.min()) == (1.0, -1.0)


def test_an_activation_that_never_runs_is_not_seen():
    class Sometimes(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.often, self.never = layers.Activation("tanh"), layers.Activation("elu")

        def call(self, x):
            return self.often(x)

    model = sequential(Sometimes())
    often, never = observe.observe(model, sites(model), np.ones((2, 8), "float32"))
    assert often.x.size > 0
    assert never is None


def test_batches_take_rows_evenly_and_keep_the_structure():
    data = {"a": np.arange(1000), "b": np.arange(1000) * 2}
    taken = list(observe.batches(data, 100))
    rows = np.concatenate([batch["a"] for batch in taken])
    assert (len(rows), rows[0], rows[-1]) == (100, 0, 999)
    assert np.ptp(np.diff(rows)) <= 1
    np.testing.assert_array_equal(np.concatenate([batch["b"] for batch in taken]), rows * 2)


def test_a_dataset_is_read_until_there_are_enough_rows():
    read = []

    def dataset():
        for index in range(10):
            read.append(index)
            yield np.zeros((4, 2)), np.zeros(4)

    assert sum(len(batch) for batch in observe.batches(dataset(), 10)) == 12
    assert read == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ("x.npz", TypeError, "`data` is an array"),
        ([], ValueError, "at least one batch"),
        ([np.zeros((3, 2)), np.zeros((4, 2))], ValueError, "equal first axes"),
        (np.zeros((0, 2)), ValueError, "at least 1"),
    ],
)
def test_data_that_gives_no_rows_is_refused(data, kind, words):
    with pytest.raises(kind, match=words):
        list(observe.batches(data, 10))
