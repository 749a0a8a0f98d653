"""A form is in use inside its block only, in its thread only."""

import threading

import numpy as np
import pytest

import sqp_keras
from sqp_keras import forms


def double(name, x, **parameters):
    return name, parameters


def test_a_form_receives_calls_inside_its_block_only():
    x = np.float32([0.0])
    with forms.use(double):
        assert sqp_keras.squareplus(x, 2.0) == ("squareplus", {"b": 2.0})
        with forms.use(None):
            assert float(sqp_keras.squareplus(x)[0]) == 1.0
        assert forms.current() is double
    assert forms.current() is None
    assert float(sqp_keras.squareplus(x)[0]) == 1.0


def test_a_form_ends_with_an_error():
    with pytest.raises(RuntimeError), forms.use(double):
        raise RuntimeError
    assert forms.current() is None


def test_other_threads_keep_their_own_form():
    found = []
    with forms.use(double):
        thread = threading.Thread(target=lambda: found.append(forms.current()))
        thread.start()
        thread.join()
    assert found == [None]
