"""The algebraic activations as layers, which are saved with their coefficients."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from sqp_keras import accept, forms, symbolic
from sqp_keras.family import coefficients
from sqp_keras.family.algebraic import algebraic, apply, checked, softmax
from sqp_keras.family.coefficients import above_zero

_MASKED = -3e4
"""What is added to a masked value: also float16 holds it, and exp of it is 0."""


@symbolic.layer_of("algebraic")
@keras.saving.register_keras_serializable(package="sqp_keras")
class Algebraic(keras.layers.Layer):
    """Returns an activation as a short sum of square roots.

    y = a0 + a1*x + sum_i w_i*sqrt((x - c_i)**2 + b_i)

    Args:
        of: Keras's name for the activation, e.g. "softplus"; see `algebraic`.
        terms: Number of square roots; None for the fewest within 1e-3 of the activation.
        alpha: Of elu and celu.
        upper: Of exponential: its largest input.
        positive: Of softplus, sigmoid and exponential: keep the values above 0; see `algebraic`.
        coefficients: The numbers of the sum, as `get_config` wrote them; None for this release's. A saved layer keeps
            the numbers it was made with.
        **kwargs: Arguments of every Keras layer, e.g. `name` and `dtype`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no such sum, or `positive` does not fit the activation.

    Example:
        >>> round(float(Algebraic("sigmoid")(np.float32([0.0]))[0]), 3)
        0.5
    """

    def __init__(
        self,
        of: str,
        terms: int | None = None,
        alpha: float = 1.0,
        upper: float | None = None,
        coefficients: dict[str, Any] | None = None,
        positive: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.of, terms, self.alpha, self.upper = checked(of, terms, alpha, upper, positive)
        self.positive = positive
        self.sum = _sum(self.of, terms, self.alpha, self.upper, coefficients)
        if positive and self.sum is not None:
            self.sum = above_zero(self.of, self.sum, self.upper)
        self.terms = None if self.sum is None else sum(len(part.roots) for part in self.sum.parts)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """Returns the sum of `inputs`."""
        if self.sum is None:
            return algebraic(inputs, self.of)
        return apply(inputs, self.of, self.terms, self.sum)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer, the sum's numbers among them."""
        numbers = {"terms": self.terms, "alpha": self.alpha, "upper": self.upper}
        held = None if self.sum is None else self.sum.config()
        return {**super().get_config(), "of": self.of, **numbers, "coefficients": held, "positive": self.positive}


@keras.saving.register_keras_serializable(package="sqp_keras")
class AlgebraicSoftmax(keras.layers.Layer):
    """Returns softmax without exp and without a division, within 5e-4 for up to 1000 values.

    Args:
        axis: The axis or axes along which the result sums to 1.
        **kwargs: Arguments of every Keras layer.
    """

    def __init__(self, axis: int | Sequence[int] = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        axes = accept.axes("axis", axis)
        self.axis = axes if isinstance(axis, Sequence) else axes[0]
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Returns softmax of `inputs`; where `mask` is False the result is below 1e-12."""
        if mask is None:
            return softmax(inputs, self.axis)
        if forms.for_integers():
            return softmax(inputs, self.axis, ops.cast(mask, inputs.dtype))
        return softmax(masked(inputs, mask), self.axis)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "axis": self.axis if isinstance(self.axis, int) else list(self.axis)}


def masked(x: Any, mask: Any) -> Any:
    """Returns values so low where `mask` is False that their exp is 0."""
    return x + (1.0 - ops.cast(mask, x.dtype)) * _MASKED


def _sum(of: str, terms: int | None, alpha: float, upper: float | None, stored: Any) -> coefficients.Sum | None:
    if stored is not None:
        return coefficients.from_config(stored)
    if of in coefficients.PASSED:
        return None
    if of == "softmax":
        raise ValueError('Softmax has its own layer. Received: of="softmax". Use AlgebraicSoftmax(axis=...).')
    return coefficients.find(of, terms, alpha, upper)
