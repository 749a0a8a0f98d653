"""Models that people put on small devices, built from their published descriptions.

`build("Z07")` gives squareplus activations and a head of logits; `build("Z07", activation="relu", head="original")`
the model as it was published, whose number of parameters is known. No weights are trained.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

L = keras.layers


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One model: its builder takes (activation, head), where head says whether the last activation stays."""

    build: Callable[[str, bool], keras.Model]
    parameters: int
    name: str


def build(identifier: str, activation: str = "squareplus", head: str = "logits", seed: int = 0) -> keras.Model:
    """Returns a model of the zoo with seeded random weights.

    Args:
        identifier: "Z01" ... "Z27".
        activation: What replaces the published model's relu or elu.
        head: "logits" without the last activation, "original" with it.
        seed: Of the weights.
    """
    keras.utils.set_random_seed(seed)
    model = ENTRIES[identifier].build(activation, head == "original")
    for layer in model.layers:
        if isinstance(layer, L.BatchNormalization):
            # As after training: statistics that are not 0 and 1, so that folding has something to fold.
            generator = np.random.default_rng(seed + layer.moving_mean.shape[0])
            size = layer.moving_mean.shape
            layer.moving_mean.assign(generator.normal(0, 0.2, size))
            layer.moving_variance.assign(generator.uniform(0.5, 1.5, size))
    return model


def samples(model: keras.Model, count: int = 64, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns seeded inputs by name; the first is all zeros, the second all ones.

    They are standard normal, and uniform in [0, 255] for a model that scales pixels itself.
    """
    generator = np.random.default_rng(seed)
    pixels = any(isinstance(layer, L.Rescaling) and np.max(layer.scale) < 0.1 for layer in model.layers)
    found = {}
    for tensor in model.inputs:
        shape = (count, *tensor.shape[1:])
        values = generator.uniform(0, 255, shape) if pixels else generator.normal(size=shape)
        values[0], values[1] = 0.0, 1.0
        found[tensor.name] = values.astype(np.float32)
    return found


def _dense_block(x, units, act):
    return L.Dense(units, activation=act)(x)


def _end(x, units, original, activation="softmax", name=None):
    return L.Dense(units, activation=activation if original else None, name=name)(x)


def hello_world(act, original):
    return keras.Sequential([keras.Input((1,)), L.Dense(16, act), L.Dense(16, act), L.Dense(1)])


def tiny_conv(act, original):
    i = keras.Input((1960,))
    x = L.Reshape((49, 40, 1))(i)
    x = L.Conv2D(8, (10, 8), strides=2, padding="same", activation=act)(x)
    x = L.Flatten()(L.Dropout(0.5)(x))
    return keras.Model(i, _end(x, 4, original))


def magic_wand(act, original):
    i = keras.Input((128, 3, 1))
    x = L.Conv2D(8, (4, 3), padding="same", activation=act)(i)
    x = L.Dropout(0.1)(L.MaxPool2D((3, 3))(x))
    x = L.Conv2D(16, (4, 1), padding="same", activation=act)(x)
    x = L.Dropout(0.1)(L.MaxPool2D((3, 1), padding="same")(x))
    x = L.Dropout(0.1)(L.Dense(16, activation=act)(L.Flatten()(x)))
    return keras.Model(i, _end(x, 4, original))


def magic_wand_lstm(act, original):
    gates = {} if original else {"activation": act, "recurrent_activation": "hard_sigmoid"}
    i = keras.Input((128, 3))
    x = L.Bidirectional(L.LSTM(22, **gates))(i)
    return keras.Model(i, _end(x, 4, original, "sigmoid"))


def mnist_lstm(act, original):
    gates = {} if original else {"activation": act, "recurrent_activation": "hard_sigmoid"}
    i = keras.Input((28, 28))
    x = L.Flatten()(L.LSTM(20, return_sequences=True, **gates)(i))
    return keras.Model(i, _end(x, 10, original))


def _conv_bn(x, filters, kernel, act, strides=1):
    x = L.Conv2D(filters, kernel, strides=strides, padding="same")(x)
    return L.Activation(act)(L.BatchNormalization()(x))


def _depthwise_pair(x, filters, act, strides=1):
    x = L.DepthwiseConv2D(3, strides=strides, padding="same")(x)
    x = L.Activation(act)(L.BatchNormalization()(x))
    return _conv_bn(x, filters, 1, act)


def person_detection(act, original):
    i = keras.Input((96, 96, 3))
    x = _conv_bn(i, 8, 3, act, 2)
    filters = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    for count, stride in zip(filters, strides, strict=True):
        x = _depthwise_pair(x, count, act, stride)
    x = L.Flatten()(L.AveragePooling2D(3)(x))
    return keras.Model(i, _end(x, 2, original))


def ds_cnn(act, original):
    i = keras.Input((49, 10, 1))
    x = L.Dropout(0.2)(_conv_bn(i, 64, (10, 4), act, 2))
    for _ in range(4):
        x = _depthwise_pair(x, 64, act)
    x = L.AveragePooling2D((25, 5))(L.Dropout(0.4)(x))
    return keras.Model(i, _end(L.Flatten()(x), 12, original))


def resnet8(act, original):
    i = keras.Input((32, 32, 3))
    x = _conv_bn(i, 16, 3, act)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        y = _conv_bn(x, filters, 3, act, stride)
        y = L.BatchNormalization()(L.Conv2D(filters, 3, padding="same")(y))
        if stride > 1:
            x = L.Conv2D(filters, 1, strides=stride, padding="same")(x)
        x = L.Activation(act)(L.Add()([x, y]))
    x = L.Flatten()(L.AveragePooling2D(8)(x))
    return keras.Model(i, _end(x, 10, original))


def auto_encoder(act, original):
    i = x = keras.Input((640,))
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = L.Activation(act)(L.BatchNormalization()(L.Dense(units)(x)))
    return keras.Model(i, L.Dense(640)(x))


def wake_word(act, original):
    i = x = keras.Input((30, 1, 40))
    for kernel, filters in ((3, 128), (5, 64), (10, 64), (15, 32)):
        x = L.DepthwiseConv2D((kernel, 1), use_bias=False)(x)
        x = L.Conv2D(filters, 1, use_bias=False)(x)
        x = L.Dropout(0.2)(L.Activation(act)(L.BatchNormalization()(x)))
    return keras.Model(i, L.Dense(3)(L.Flatten()(x)))


def eegnet(act, original):
    i = keras.Input((64, 128, 1))
    x = L.BatchNormalization()(L.Conv2D(8, (1, 64), padding="same", use_bias=False)(i))
    x = L.BatchNormalization()(L.DepthwiseConv2D((64, 1), depth_multiplier=2, use_bias=False)(x))
    x = L.Dropout(0.5)(L.AveragePooling2D((1, 4))(L.Activation(act)(x)))
    x = L.BatchNormalization()(L.SeparableConv2D(16, (1, 16), padding="same", use_bias=False)(x))
    x = L.Dropout(0.5)(L.AveragePooling2D((1, 8))(L.Activation(act)(x)))
    return keras.Model(i, _end(L.Flatten()(x), 4, original))


def pilotnet(act, original):
    i = keras.Input((66, 200, 3))
    x = L.Rescaling(1 / 127.5, offset=-1)(i)
    for filters in (24, 36, 48):
        x = L.Conv2D(filters, 5, strides=2, activation=act)(x)
    for _ in range(2):
        x = L.Conv2D(64, 3, activation=act)(x)
    x = L.Flatten()(x)
    for units in (100, 50, 10):
        x = L.Dense(units, activation=act)(x)
    return keras.Model(i, L.Dense(1)(x))


def donkeycar(act, original):
    i = keras.Input((120, 160, 3))
    x = i
    for filters, kernel, stride in ((24, 5, 2), (32, 5, 2), (64, 5, 2), (64, 3, 1), (64, 3, 1)):
        x = L.Dropout(0.2)(L.Conv2D(filters, kernel, strides=stride, activation=act)(x))
    x = L.Flatten()(x)
    for units in (100, 50):
        x = L.Dropout(0.2)(L.Dense(units, activation=act)(x))
    return keras.Model(i, [L.Dense(1, name="steering")(x), L.Dense(1, name="throttle")(x)])


def rnnoise(act, original):
    dense = "tanh" if original else act
    gates = {"activation": "relu" if original else act, "reset_after": False, "return_sequences": True}
    gates["recurrent_activation"] = "sigmoid" if original else "hard_sigmoid"
    i = keras.Input((1, 42))
    t = L.Dense(24, activation=dense)(i)
    v = L.GRU(24, **gates)(t)
    voice = _end(v, 1, original, "sigmoid", "voice")
    n = L.GRU(48, **gates)(L.Concatenate()([t, v, i]))
    d = L.GRU(96, **gates)(L.Concatenate()([v, n, i]))
    return keras.Model(i, [_end(d, 22, original, "sigmoid", "gains"), voice])


def human_activity(act, original):
    i = keras.Input((24, 3, 1))
    x = L.MaxPool2D((3, 1))(L.Conv2D(24, (16, 1), activation=act)(i))
    x = L.Dropout(0.3)(L.Dense(12, activation=act)(L.Flatten()(x)))
    return keras.Model(i, _end(x, 4, original))


def fomo(act, original):
    base = keras.applications.MobileNetV2((96, 96, 3), alpha=0.35, include_top=False, weights=None)
    cut = keras.Model(base.input, base.get_layer("block_6_expand_relu").output)
    if not original:
        cut = keras.models.clone_model(cut, clone_function=lambda layer: _exchanged(layer, act))
    x = L.Conv2D(32, 1, activation=act)(cut.output)
    x = L.Conv2D(3, 1)(x)
    return keras.Model(cut.input, L.Softmax()(x) if original else x)


def _exchanged(layer, act):
    if isinstance(layer, L.ReLU):
        return L.Activation(act, name=layer.name)
    return layer.__class__.from_config(layer.get_config())


def motion(act, original):
    i = keras.Input((39,))
    x = L.Dense(10, activation=act)(L.Dense(20, activation=act)(i))
    return keras.Model(i, _end(x, 4, original))


def mean_and_sigma(act, original):
    i = keras.Input((8,))
    x = L.Dense(32, activation=act)(L.Dense(32, activation=act)(i))
    sigma = L.Dense(1, activation="softplus" if original else act, name="sigma")(x)
    return keras.Model(i, [L.Dense(1, name="mean")(x), sigma])


def mip_nerf(act, original):
    position, view = keras.Input((96,), name="position"), keras.Input((27,), name="view")
    x = position
    for _ in range(4):
        x = L.Dense(64, activation=act)(x)
    density = L.Activation("softplus" if original else act, name="density")(L.Rescaling(1.0, -1.0)(L.Dense(1)(x)))
    colour = L.Dense(32, activation=act)(L.Concatenate()([L.Dense(64)(x), view]))
    colour = _end(colour, 3, original, "sigmoid")
    return keras.Model([position, view], [density, L.Rescaling(1.002, -0.001, name="colour")(colour)])


def cnn_lstm(act, original):
    gates = {} if original else {"activation": act, "recurrent_activation": "hard_sigmoid"}
    i = keras.Input((128, 9))
    x = L.Conv1D(64, 3, activation=act)(i)
    x = L.MaxPool1D(2)(L.Conv1D(64, 3, activation=act)(x))
    x = L.Dense(100, activation=act)(L.LSTM(50, **gates)(x))
    return keras.Model(i, _end(x, 6, original))


def variational_encoder(act, original):
    i = keras.Input((784,))
    x = L.Dense(64, activation=act)(i)
    return keras.Model(i, [L.Dense(2, name="z_mean")(x), L.Dense(2, name="z_log_variance")(x)])


ENTRIES = {
    "Z01": Entry(hello_world, 321, "hello_world sine"),
    "Z02": Entry(tiny_conv, 16_652, "micro_speech tiny_conv"),
    "Z03": Entry(magic_wand, 4_300, "magic_wand CNN"),
    "Z04": Entry(magic_wand_lstm, 4_756, "magic_wand bidirectional LSTM"),
    "Z05": Entry(mnist_lstm, 9_530, "MNIST LSTM"),
    "Z06": Entry(person_detection, 221_794, "person detection MobileNetV1 0.25"),
    "Z07": Entry(ds_cnn, 24_908, "DS-CNN keyword spotting"),
    "Z08": Entry(resnet8, 78_666, "ResNet8"),
    "Z09": Entry(auto_encoder, 269_992, "auto-encoder"),
    "Z10": Entry(wake_word, 23_067, "streaming wake word"),
    "Z11": Entry(eegnet, 2_468, "EEGNet-8,2"),
    "Z12": Entry(pilotnet, 252_219, "PilotNet"),
    "Z13": Entry(donkeycar, 817_028, "donkeycar"),
    "Z14": Entry(rnnoise, 87_503, "RNNoise"),
    "Z16": Entry(human_activity, 3_064, "ST IGN human activity"),
    "Z19": Entry(fomo, 20_787, "FOMO"),
    "Z21": Entry(motion, 1_054, "motion classifier"),
    "Z22": Entry(mean_and_sigma, 1_410, "mean and sigma"),
    "Z23": Entry(mip_nerf, 25_956, "mip-NeRF"),
    "Z25": Entry(cnn_lstm, 42_850, "CNN-LSTM"),
    "Z27": Entry(variational_encoder, 50_500, "variational encoder"),
}
