"""The activations of a Keras model as the report's data."""

from __future__ import annotations

from sqp_keras.models.sites import Site
from sqp_tflite.report import Activation


def activation(site: Site) -> Activation:
    """Returns what one place of a model computes.

    Args:
        site: One of `sqp_keras.models.sites.sites`.
    """
    held = site.activation
    set_to = tuple((key, value) for key, value in held.parameters if isinstance(value, (int, float, str, type(None))))
    return Activation(held.name, set_to, held.spelled)
