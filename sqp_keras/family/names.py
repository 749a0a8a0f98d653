"""Keras's names for activations, and other spellings of them."""

ALIASES = {
    "swish": "silu",
    "hard_swish": "hard_silu",
    "leakyrelu": "leaky_relu",
    "exp": "exponential",
    "identity": "linear",
    "logsoftmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "hardsigmoid": "hard_sigmoid",
    "hardsilu": "hard_silu",
    "hardtanh": "hard_tanh",
    "algebraicsoftmax": "algebraic_softmax",
}
"""Other spellings of Keras's names: older names, class names in lower case, those of tf.nn and jax.nn."""


def canonical(name: str) -> str:
    """Returns Keras's name for an activation whatever its spelling."""
    lower = name.lower()
    return ALIASES.get(lower, lower)
