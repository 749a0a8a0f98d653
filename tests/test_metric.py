"""The metric on the user's labels, and whether an output is one of classes."""

import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.run.metric import ACCURACY, ERROR, Metric, argmax_agreement, classifies, metric


@pytest.mark.parametrize(
    ("outputs", "labels", "expected"),
    [
        ([[0, 1, 2], [2, 1, 0]], [2, 1], Metric(ACCURACY, 0.5, 0.5)),
        ([[0, 1, 2], [2, 1, 0]], [[2], [0]], Metric(ACCURACY, 1.0, 0.5)),
        ([[0, 1], [2, 1]], [[0, 1], [0, 1]], Metric(ACCURACY, 0.5, 1.0)),
        ([[0.9], [0.2]], [1, 1], Metric(ACCURACY, 0.5, 1.0)),
        ([[0.5], [2.0]], [0.25, 1.0], Metric(ERROR, 0.625, 0.375)),
        # Errors of both signs do not make up for each other.
        ([[0.5], [2.0]], [1.5, 1.0], Metric(ERROR, 1.0, 0.25)),
    ],
)
def test_metric(outputs, labels, expected):
    assert metric(np.array(outputs, float), np.array(labels)) == expected


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(4, 7), "class numbers from 0 to 2. Received: int64 from 7 to 7"),
        (np.array([0.0, 1.5, 2.0, 1.0]), "class numbers from 0 to 2. Received: float64 from 0.0 to 2.0"),
        (np.zeros((4, 2)), r"one row per sample, of the shape .*\(4, 3\). Received: \(4, 2\)"),
        (np.zeros((4, 1, 1, 3)), r"of the shape .*\(4, 3\). Received: \(4, 1, 1, 3\)"),
        (np.zeros((4, 1, 1)), r"of the shape .*\(4, 3\). Received: \(4, 1, 1\)"),
        (np.zeros((4, 1, 3)), r"of the shape .*\(4, 3\). Received: \(4, 1, 3\)"),
    ],
)
def test_labels_that_do_not_fit_the_outputs_are_refused(labels, words):
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        metric(np.zeros((4, 3)), labels)


@pytest.mark.parametrize("shapes", [((4, 1), (4,)), ((4,), (4, 1)), ((4, 2, 1), (4, 2)), ((4, 2), (4, 2, 1))])
def test_targets_may_leave_out_a_last_axis_of_one(shapes):
    outputs, labels = (np.linspace(0.0, 0.5, int(np.prod(shape))).reshape(shape) for shape in shapes)
    assert metric(outputs, labels).value == 0.0


@pytest.mark.parametrize(
    ("before", "after", "collapsed"),
    [
        (Metric(ACCURACY, 0.98, 0.1), Metric(ACCURACY, 0.95, 0.1), False),
        (Metric(ACCURACY, 0.98, 0.1), Metric(ACCURACY, 0.5, 0.1), True),
        (Metric(ACCURACY, 0.1, 0.1), Metric(ACCURACY, 0.05, 0.1), False),  # nothing to lose
        (Metric(ERROR, 0.1, 1.0), Metric(ERROR, 0.2, 1.0), False),
        (Metric(ERROR, 0.1, 1.0), Metric(ERROR, 0.7, 1.0), True),
    ],
)
def test_a_metric_has_collapsed_if_most_of_its_gain_over_a_constant_answer_is_gone(before, after, collapsed):
    assert after.collapsed(before) is collapsed


def test_only_distributions_and_labelled_classes_have_a_largest_class():
    generator = np.random.default_rng(0)
    values = generator.random((20, 3))
    distribution = values / values.sum(axis=1, keepdims=True)
    assert classifies(distribution)
    assert not classifies(values) and not classifies(values[:, :1])
    assert classifies(values, generator.integers(0, 3, 20)) and classifies(
        values, np.eye(3)[generator.integers(0, 3, 20)]
    )
    assert not classifies(values, values + 0.1)  # targets of a regression


def test_argmax_agreement_is_the_share_of_rows():
    assert argmax_agreement(np.array([[0, 1], [1, 0]]), np.array([[0, 1], [0, 1]])) == 0.5


@pytest.mark.parametrize(
    ("before", "after", "collapsed"),
    [
        (Metric(ACCURACY, 0.95, 0.95), Metric(ACCURACY, 0.05, 0.95), True),
        (Metric(ACCURACY, 0.95, 0.95), Metric(ACCURACY, 0.90, 0.95), False),
        (Metric(ERROR, 2.0, 2.0), Metric(ERROR, 2.9, 2.0), False),
        (Metric(ERROR, 2.0, 2.0), Metric(ERROR, 3.1, 2.0), True),
    ],
)
def test_where_keras_is_at_chance_the_file_may_not_be_far_worse(before, after, collapsed):
    assert after.collapsed(before) is collapsed
