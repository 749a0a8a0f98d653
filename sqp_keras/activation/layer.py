"""Squareplus as a layer, with a fixed or a learnt b."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import constraints, initializers, ops, regularizers

from sqp_keras import accept, symbolic
from sqp_keras.activation.constants import B_CURVATURE, B_LARGEST, B_LEARNT_SMALLEST
from sqp_keras.activation.functional import checked_b, squareplus

LEARN_B = (None, "layer", "channel")


@keras.saving.register_keras_serializable(package="sqp_keras")
class KeepPositive(keras.constraints.Constraint):
    """Returns the weight held in what a learnt b may be, so that it stays positive; NaN becomes the smallest value.

    Args:
        first: Another constraint, applied before.
    """

    def __init__(self, first: Any = None) -> None:
        self.first = constraints.get(first)

    def __call__(self, w: Any) -> Any:
        """Returns `w`, constrained by `first`, within [1e-4, 1e30]; in float16 up to 65504, its largest number."""
        w = ops.convert_to_tensor(w if self.first is None else self.first(w))
        largest = 65504.0 if keras.backend.standardize_dtype(w.dtype) == "float16" else B_LARGEST
        # A comparison with NaN is False, where a clip lets NaN through, which would then stay for ever.
        return ops.minimum(ops.where(w >= B_LEARNT_SMALLEST, w, B_LEARNT_SMALLEST), largest)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal constraint."""
        return {"first": constraints.serialize(self.first) if self.first else None}


@symbolic.layer_of("squareplus")
@keras.saving.register_keras_serializable(package="sqp_keras")
class Squareplus(keras.layers.Layer):
    """Returns a smooth rectifier that needs only additions, multiplications and a square root.

    y = (x + s) / 2 + floor    dy/dx = (x + s) / (2*s)    dy/db = 1 / (4*s)    s = sqrt(x*x + b)

    Args:
        b: Size of the bend: 0 (relu) or a number in [1e-30, 1e30]. 4 matches softplus's curvature at 0. Where b is
            learnt, its first value.
        learn_b: None for a fixed b, which is not a weight; "layer" for one b, a scalar weight; "channel" for one b per
            entry of the last axis. A learnt b is a float32 weight in mixed precision and stays at or above 1e-4.
        floor: Added to the output; the smallest value of a positive head.
        shared_axes: For learn_b="channel" only, as in `PReLU`: b has the shape of one input with these axes set
            to 1, e.g. [2, 3] for images with the channels first. None shares every axis but the last.
        b_initializer: Initialiser of a learnt b; default: the constant `b`. What it returns below 1e-4 becomes 1e-4, so
            "zeros" starts close to relu.
        b_regularizer: Regulariser of a learnt b.
        b_constraint: Constraint of a learnt b, applied before the one that keeps it positive.
        **kwargs: Arguments of every Keras layer, e.g. `name` and `dtype`.

    Raises:
        TypeError: `b` or `floor` is not a number, or the input is sparse or ragged.
        ValueError: An argument is out of range, or belongs to a learnt b and b is fixed.

    Example:
        >>> float(Squareplus(b=4.0)(np.float32([0.0]))[0])
        1.0

    Source: Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", 2021.
    """

    def __init__(
        self,
        b: float = B_CURVATURE,
        learn_b: str | None = None,
        floor: float = 0.0,
        shared_axes: int | Sequence[int] | None = None,
        b_initializer: Any = None,
        b_regularizer: Any = None,
        b_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.learn_b = _checked_learn_b(learn_b, shared_axes, b_initializer, b_regularizer, b_constraint)
        self.floor = _checked_floor(floor)
        self.shared_axes = None if shared_axes is None else list(accept.axes("shared_axes", shared_axes, least=0))
        self.b_initializer = accept.part_of_keras("b_initializer", b_initializer, initializers.get)
        self.b_regularizer = accept.part_of_keras("b_regularizer", b_regularizer, regularizers.get)
        self.b_constraint = accept.part_of_keras("b_constraint", b_constraint, constraints.get)
        self.first_b = _checked_number(b, learn_b)
        self.b: Any = self.first_b
        # Nothing depends on a shape. `fit` under a distribution strategy cannot build what is inside another layer.
        self.built = learn_b is None

    def build(self, input_shape: Any) -> None:
        """Creates the weight `b` if it is learnt."""
        if self.learn_b is None:
            return
        # Not cast to the compute dtype: float32 arithmetic is done anyway, and a half would round b.
        self.b = self.add_weight(
            shape=self._b_shape(tuple(input_shape)),
            name="b",
            initializer=self._first_values,
            regularizer=self.b_regularizer,
            constraint=KeepPositive(self.b_constraint),
            autocast=False,
        )

    def _first_values(self, shape: Any, dtype: Any = None) -> Any:
        """Returns what the initialiser makes, held where b may be: "zeros" or "random_normal" would give NaN."""
        return KeepPositive()((self.b_initializer or initializers.Constant(self.first_b))(shape, dtype=dtype))

    def call(self, inputs: Any) -> Any:
        """Returns squareplus of `inputs`, plus `floor`."""
        y = squareplus(inputs, self.b)
        return y + self.floor if self.floor else y

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def compute_output_spec(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the shape of the input with the layer's compute dtype."""
        if getattr(inputs, "sparse", False) or getattr(inputs, "ragged", False):
            raise TypeError(
                f"`{self.name}` (Squareplus) needs a dense input. {accept.dense_rule(inputs)} Received: {inputs}. "
                f"{accept.dense_remedy('x', inputs)}"
            )
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "b": self.first_b,
            "learn_b": self.learn_b,
            "floor": self.floor,
            "shared_axes": self.shared_axes,
            "b_initializer": initializers.serialize(self.b_initializer) if self.b_initializer else None,
            "b_regularizer": regularizers.serialize(self.b_regularizer) if self.b_regularizer else None,
            "b_constraint": constraints.serialize(self.b_constraint) if self.b_constraint else None,
        }

    def _b_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int, ...]:
        if self.learn_b == "layer":
            return ()
        rank = len(input_shape)
        if rank < 2:
            raise ValueError(
                f'`{self.name}` (Squareplus) with learn_b="channel" needs an input with a channel axis. '
                f'Received: input shape {input_shape}. Use learn_b="layer".'
            )
        if self.shared_axes is None:
            shape = [input_shape[-1]]
        else:
            shape = list(input_shape[1:])
            for axis in self.shared_axes:
                if not (-rank < axis < 0 or 0 < axis < rank):
                    raise ValueError(
                        f"`shared_axes` of `{self.name}` (Squareplus) counts the axes of the input from 1, the batch "
                        f"being 0. Received: axis {axis} for input shape {input_shape}."
                    )
                shape[axis - 1 if axis > 0 else axis] = 1
        sizes = tuple(size for size in shape if size is not None)
        if len(sizes) < len(shape):
            raise ValueError(
                f"Each axis of `{self.name}` (Squareplus) that has its own values of b needs a known size. "
                f"Received: input shape {input_shape}. Share the others, e.g. shared_axes=[1]."
            )
        return sizes


def _checked_learn_b(learn_b: Any, *only_if_learnt: Any) -> str | None:
    if not (learn_b is None or isinstance(learn_b, str)) or learn_b not in LEARN_B:
        raise ValueError(f'`learn_b` is None, "layer" or "channel". Received: learn_b={accept.shown(learn_b)}.')
    shared_axes, *rest = only_if_learnt
    if learn_b is None and any(argument is not None for argument in rest):
        raise ValueError(
            "`b_initializer`, `b_regularizer` and `b_constraint` are for a learnt b. Received: learn_b=None. "
            'Pass learn_b="layer" or learn_b="channel".'
        )
    if learn_b != "channel" and shared_axes is not None:
        raise ValueError(f'`shared_axes` is for learn_b="channel". Received: learn_b={learn_b!r}.')
    return learn_b


def _checked_number(b: Any, learn_b: str | None) -> float:
    b = checked_b(b)
    if not isinstance(b, float):
        raise TypeError(
            f"`b` of the layer is one number. Received: {type(b).__name__}. "
            'For a b per channel use learn_b="channel" with `b_initializer`.'
        )
    if learn_b is not None and b < B_LEARNT_SMALLEST:
        raise ValueError(f"A learnt `b` starts at or above {B_LEARNT_SMALLEST:g}. Received: b={b}.")
    return b


def _checked_floor(floor: Any) -> float:
    return accept.number("floor", floor)
