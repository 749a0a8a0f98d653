"""Models of sequences that run sample by sample on devices, and how many operators they are."""

from collections.abc import Callable, Mapping

import keras

from tools import zoo

L = keras.layers


def rnnoise(steps):
    """Returns the denoiser (Z14), which was published as a step, for sequences."""
    return _longer(zoo.build("Z14", activation="relu", head="original"), steps)


def mnist_lstm(steps):
    """Returns the LSTM over the rows of an image (Z05)."""
    return _longer(zoo.build("Z05", activation="relu", head="original"), steps)


def magic_wand(steps):
    """Returns the gesture LSTM (Z04) with its forward layer only."""
    return keras.Sequential([keras.Input((steps, 3)), L.LSTM(22, name="lstm"), L.Dense(4, "softmax")])


def two_grus(steps):
    """Returns two GRUs, one on the other."""
    return keras.Sequential([keras.Input((steps, 6)), L.GRU(24, return_sequences=True), L.GRU(24), L.Dense(5)])


def dilated(steps):
    """Returns causal convolutions with gates and dilations 1, 2, 4 and 8, whose skips are added up."""
    x = keras.Input((steps, 2))
    y, skips = L.Conv1D(8, 1)(x), []
    for rate in (1, 2, 4, 8):
        gate, value = (
            L.Conv1D(8, 2, padding="causal", dilation_rate=rate, activation=a)(y) for a in ("sigmoid", "tanh")
        )
        made = L.Multiply()([gate, value])
        skips.append(L.Conv1D(8, 1)(made))
        y = L.Add()([y, skips[-1]])
    return keras.Model(x, L.Conv1D(1, 1)(L.Activation("relu")(L.Add()(skips))))


def pedal(steps):
    """Returns an effect for a guitar: an LSTM of one channel, added to its input."""
    x = keras.Input((steps, 1))
    return keras.Model(x, L.Add()([x, L.Dense(1)(L.LSTM(20, return_sequences=True)(x))]))


_MAX_ERROR = 3e-4
"""Of the sums: four terms for each gate, as an export takes for most networks."""

NETS: Mapping[str, tuple[Callable[[int], keras.Model], int]] = {
    "RNNoise (Z14)": (rnnoise, 100),
    "MNIST LSTM (Z05)": (mnist_lstm, 28),
    "magic_wand, forwards LSTM": (magic_wand, 128),
    "two GRUs": (two_grus, 64),
    "dilated causal convolutions": (dilated, 128),
    "residual one-channel LSTM": (pedal, 128),
}
"""{name: (builder, time steps of its sequences)}."""


def build(name: str) -> keras.Model:
    """Returns a model of `NETS` with seeded random weights, those of recurrent layers 1.5 times as large."""
    keras.utils.set_random_seed(0)
    make, steps = NETS[name]
    model = make(steps)
    for layer in model.layers:
        if isinstance(layer, L.RNN):
            layer.set_weights([1.5 * weight for weight in layer.get_weights()])
    return model


def operators(model: keras.Model, step: bool, accurate: bool = False) -> int:
    """Returns how many operators the converter writes for a model: for all of its time steps, or for one.

    Args:
        model: A model of sequences.
        step: Whether to count those of one step.
        accurate: Whether its activations become sums of square roots.
    """
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.source.convert import IMPORTS, convert
    from sqp_tflite.source.exchange import exchange
    from sqp_tflite.source.load import load
    from sqp_tflite.source.plan import plan
    from sqp_tflite.source.rewrites import on_device
    from sqp_tflite.source.samples import samples
    from sqp_tflite.source.step.step import stepped
    from sqp_tflite.source.trace import trace
    from sqp_tflite.worker import lent

    loaded = load(model)
    if accurate:
        made_up = samples(None, loaded.inputs)
        loaded = exchange(loaded, made_up, replace="accurate", head="keep", max_error=_MAX_ERROR).loaded
    made = stepped(loaded) if step else None
    planned = plan(made.loaded if made else loaded)
    states = {state.name: state.name for state in made.states} if made else None
    with lent("convert", IMPORTS) as worker:
        content = convert(on_device(trace(planned, states), planned.wanted), worker)
    return len(list(read(content).all_ops()))


def _longer(model: keras.Model, steps: int) -> keras.Model:
    """The same layers for sequences of a length."""
    if model.inputs[0].shape[1] == steps:
        return model
    (tensor,) = model.inputs
    return keras.models.clone_model(model, input_tensors=keras.Input((steps, *tensor.shape[2:])))
