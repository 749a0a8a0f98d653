"""What a name of Keras meant before Keras 3, for models of that time."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="sqp_keras")
def hard_sigmoid_keras2(x: Any) -> Any:
    """Returns the hard sigmoid of Keras 1 and 2, whose slope is 1/5; that of Keras 3 is 1/6.

    y = min(max(x/5 + 1/2, 0), 1) = relu6(1.2*x + 3) / 6

    Written with relu6, it consists of the operators of Keras 3's.

    Args:
        x: Tensor or `KerasTensor`.
    """
    return keras.ops.relu6(x * 1.2 + 3.0) * (1.0 / 6.0)
