"""Writes files of Keras 2: models of its layers, with inputs and the outputs that this Keras computed.

Run it in an environment of the TensorFlow that wrote such files, which the package itself does not run in:

    python3.11 -m venv /tmp/keras2 && /tmp/keras2/bin/pip install "tensorflow==2.15.*"
    /tmp/keras2/bin/python tools/keras2_files.py /tmp/keras2/files --zip tests/data/keras2.zip

Each model is written as `.h5`, `.keras` and SavedModel, its inputs and outputs as `.npz`. The archive that the tests
read holds all of them but the large SavedModels. `--only` takes some of the models: keras2_12.zip holds `decoder` of
TensorFlow 2.12, keras2_13.zip `nested` of 2.13. `--package tf_keras` writes with tf-keras, as TensorFlow 2.16 and later
need it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

SAMPLES = 4
SEED = 7
PACKED = ("image", "merges", "nested")
"""The SavedModels in the archive: with an optimizer, with random layers, with several outputs."""


def image(keras: Any) -> Any:
    """Convolutions of images, compiled and trained: the file holds an optimizer and its slots."""
    layers = keras.layers
    normalized = layers.Normalization(axis=-1)
    normalized.adapt(np.random.default_rng(1).normal(2, 3, (64, 10, 10, 3)).astype("float32"))
    model = keras.Sequential(
        [
            layers.Rescaling(1 / 2, offset=0.5, input_shape=(10, 10, 3)),
            normalized,
            layers.ZeroPadding2D(((1, 0), (0, 1))),
            layers.Conv2D(6, 3, strides=2, use_bias=False, kernel_regularizer=keras.regularizers.l2(1e-4)),
            layers.BatchNormalization(axis=[3]),
            layers.ReLU(max_value=6.0),
            layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2, depthwise_constraint="max_norm"),
            layers.BatchNormalization(scale=False),
            layers.Activation("swish"),
            layers.SeparableConv2D(5, 3, padding="same", activation="elu", dilation_rate=2),
            layers.SpatialDropout2D(0.1),
            layers.MaxPooling2D(2, padding="same"),
            layers.Cropping2D(((0, 1), (0, 0))),
            layers.GaussianNoise(0.1),
            layers.GlobalAveragePooling2D(keepdims=True),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(4, activation="softmax", activity_regularizer="l1", kernel_initializer="he_normal"),
        ],
        name="image",
    )
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
    rng = np.random.default_rng(2)
    model.fit(rng.normal(size=(8, 10, 10, 3)), rng.integers(0, 4, 8), epochs=1, verbose=0)
    return model


def signal(keras: Any) -> Any:
    """Convolutions of signals."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 3), name="signal"),
            layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="tanh"),
            layers.SeparableConv1D(4, 3, padding="same", activation="relu", depth_multiplier=2),
            layers.DepthwiseConv1D(3, padding="same"),
            layers.BatchNormalization(axis=-1),
            layers.AveragePooling1D(2),
            layers.UpSampling1D(2),
            layers.Conv1DTranspose(4, 3, strides=2, padding="same", activation="softplus"),
            layers.Cropping1D((1, 2)),
            layers.ZeroPadding1D(1),
            layers.SpatialDropout1D(0.2),
            layers.MaxPooling1D(2),
            layers.Permute((2, 1)),
            layers.Dense(5, activation="softsign"),
            layers.GlobalMaxPooling1D(),
            layers.RepeatVector(3),
            layers.GlobalAveragePooling1D(),
            layers.ActivityRegularization(l2=0.1),
            layers.Dense(2, activation="linear"),
        ],
        name="signal",
    )


def recurrent(keras: Any) -> Any:
    """The recurrent layers, in both directions, with states."""
    layers = keras.layers
    x = inputs = keras.Input((6, 4), name="sequence")
    x = layers.LSTM(3, return_sequences=True, unit_forget_bias=True, recurrent_dropout=0.1)(x)
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="concat")(x)
    x = layers.Bidirectional(
        layers.LSTM(3, return_sequences=True), backward_layer=layers.LSTM(3, return_sequences=True, go_backwards=True)
    )(x)
    x = layers.GRU(3, reset_after=False, return_sequences=True, recurrent_activation="hard_sigmoid")(x)
    x, h, c = layers.LSTM(3, return_state=True, return_sequences=True)(x)
    x = layers.LSTM(3, return_sequences=True)(x, initial_state=[h, c])
    x = layers.TimeDistributed(layers.Dense(4, activation="selu"))(x)
    x = layers.SimpleRNN(3, unroll=True)(x)
    return keras.Model(inputs, [x, h], name="recurrent")


def cells(keras: Any) -> Any:
    """Recurrent layers made of cells, over images, and over masked steps."""
    layers = keras.layers
    sequence = keras.Input((5, 3), name="sequence")
    x = layers.Masking(0.0)(sequence)
    x = layers.RNN([layers.LSTMCell(3), layers.GRUCell(4)], return_sequences=True)(x)
    x = layers.RNN(layers.SimpleRNNCell(3, activation="relu"), return_sequences=True, go_backwards=True)(x)
    x = layers.Bidirectional(layers.RNN(layers.GRUCell(3, reset_after=False)), merge_mode="sum")(x)
    images = keras.Input((3, 5, 5, 2), name="images")
    y = layers.ConvLSTM2D(2, 3, padding="same", return_sequences=True, data_format="channels_last")(images)
    y = layers.TimeDistributed(layers.Conv2D(2, 3, activation="gelu"))(y)
    y = layers.ConvLSTM2D(2, 2)(y)
    y = layers.Flatten()(y)
    rows = layers.TimeDistributed(layers.TimeDistributed(layers.Dense(2)))(images[:, :, :, :2, :])
    rows = layers.ConvLSTM1D(2, 3)(layers.Reshape((3, 5, 4))(rows))
    return keras.Model([sequence, images], layers.Concatenate()([x, y, layers.Flatten()(rows)]), name="cells")


def attention(keras: Any) -> Any:
    """Tokens, attention and normalisation."""
    layers = keras.layers
    tokens = keras.Input((6,), name="tokens", dtype="int32")
    x = layers.Embedding(11, 8, input_length=6, embeddings_constraint=keras.constraints.UnitNorm())(tokens)
    y = layers.LayerNormalization(axis=[2], epsilon=1e-6)(x)
    y = layers.MultiHeadAttention(2, 4, value_dim=3)(y, y, use_causal_mask=True)
    x = layers.Add()([x, y])
    y = layers.MultiHeadAttention(2, 4, attention_axes=(1,), output_shape=8)(query=x, value=x, key=x)
    x = layers.Add()([x, y])
    y = layers.Attention(use_scale=True)([x, x])
    z = layers.AdditiveAttention()([x, y])
    q = layers.Attention(score_mode="concat")([x, y, z])
    x = layers.Average()([x, y, z, q])
    x = layers.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d", activation="gelu")(x)
    x = layers.UnitNormalization(axis=[-1])(x)
    x = layers.GroupNormalization(5)(x)
    x = layers.LayerNormalization(center=False)(x)
    x, scores = layers.MultiHeadAttention(1, 3)(x, x, return_attention_scores=True)
    return keras.Model(tokens, [layers.GlobalAveragePooling1D()(x), scores], name="attention")


def operations(keras: Any) -> Any:
    """Functions of TensorFlow between layers (TFOpLambda, SlicingOpLambda)."""
    layers = keras.layers
    inputs = keras.Input((4, 6), name="x")
    x = layers.Dense(6)(inputs * 2.0 - 1.0)
    x = tf.nn.relu(x) + 0.5 * tf.math.sigmoid(-x) / (1.0 + tf.abs(x))
    x = 1.0 - tf.concat([x, inputs], axis=-1)
    x = tf.transpose(x, perm=[0, 2, 1])[:, 1:9:2, :, tf.newaxis]
    x = tf.squeeze(tf.reshape(x, (-1, 4, 2, 2, 1)), axis=[4])
    a, b = tf.split(x, 2, axis=2)
    x = tf.math.maximum(a, b) * tf.clip_by_value(a, -0.5, 0.5) + tf.pow(tf.minimum(a, b), 2)
    x = tf.expand_dims(tf.reduce_mean(x, axis=[2, 3]), 1)
    y = tf.stack([inputs[:, 0], inputs[:, -1]], axis=1)
    y = tf.nn.softmax(tf.matmul(y, inputs, transpose_b=True), axis=-1)
    y = tf.math.sqrt(tf.math.square(y) + 1e-3) - tf.exp(-y)
    y = tf.math.reduce_max(tf.cast(y, tf.float32), axis=1, keepdims=True)
    z = tf.pad(tf.tile(y, [1, 2, 1]), [[0, 0], [1, 0], [0, 2]])
    z = tf.math.l2_normalize(z + tf.nn.gelu(z, approximate=True), axis=-1)
    z = tf.gather(z, [0, 2], axis=1)
    z = tf.where(z > 0.1, z, 0.1 * z)
    w = tf.math.log(1.0 + tf.abs(tf.tensordot(y, tf.constant([[0.5], [1.0], [0.2], [0.3]]), 1))) + tf.nn.silu(y)
    x = tf.multiply(tf.add(x, y), tf.subtract(x, w))
    return keras.Model(inputs, [x, tf.reduce_sum(z, axis=(1, 2))], name="operations")


def nested(keras: Any) -> Any:
    """Models in models, layers and models that are called twice."""
    layers = keras.layers
    first = keras.Sequential([layers.Dense(5, activation="tanh"), layers.Dense(4)], name="first")
    inner_in = keras.Input((4,), name="inner_in")
    inner = keras.Model(inner_in, [layers.Dense(3)(inner_in), layers.Dense(2, "relu")(inner_in)], name="inner")
    shared = layers.Dense(4, name="shared", activation=tf.nn.relu6)
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    a, b = first(left), first(right)
    a, b = shared(a), shared(b)
    p, q = inner(a)
    r, s = inner(b)
    deep = keras.Sequential([keras.Input((3,)), keras.Sequential([layers.Dense(3), layers.ReLU()]), layers.Dense(2)])
    end = layers.Concatenate()([deep(p), deep(r), q, s])
    return keras.Model({"left": left, "right": right}, {"end": end, "sum": layers.Add()([q, s])}, name="nested")


def decoder(keras: Any) -> Any:
    """Up-sampling, transposed convolutions and the layers of activations."""
    layers = keras.layers
    inputs = keras.Input((6, 6, 3), name="map")
    skip = x = layers.Conv2D(4, 3, padding="same", activation=keras.activations.relu)(inputs)
    x = layers.LeakyReLU(alpha=0.2)(layers.AveragePooling2D()(x))
    x = layers.PReLU(shared_axes=[1, 2], alpha_initializer="uniform")(x)
    x = layers.UpSampling2D((2, 2), interpolation="bilinear")(x)
    x = layers.Concatenate(axis=3)([x, skip])
    x = layers.ELU(alpha=0.5)(layers.Conv2DTranspose(4, 3, strides=2, padding="same", output_padding=1)(x))
    x = layers.ReLU(negative_slope=0.1, threshold=0.05)(x)
    x = layers.UpSampling2D(2, interpolation="nearest")(layers.MaxPooling2D()(x))
    x = layers.ThresholdedReLU(theta=0.02)(x)
    x = layers.Conv2D(4, 1, groups=2, activation="hard_sigmoid")(x)
    x = layers.Activation("exponential")(x)
    return keras.Model(inputs, layers.Softmax(axis=[-1])(x), name="decoder")


def merges(keras: Any) -> Any:
    """What joins tensors, and preprocessing."""
    layers = keras.layers
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    kind = keras.Input((1,), name="kind", dtype="int32")
    x = layers.Dense(4, activation="relu", bias_initializer=keras.initializers.Constant(0.5))(a)
    ends = [
        layers.Add()([a, b]),
        layers.Subtract()([x, b]),
        layers.Multiply()([x, a, b]),
        layers.Average()([a, b]),
        layers.Maximum()([a, b]),
        layers.Minimum()([x, b]),
        layers.Dot(axes=1, normalize=True)([a, b]),
        layers.Flatten()(layers.Dot(axes=(2, 1))([layers.Reshape((2, 2))(a), layers.Reshape((2, -1))(b)])),
        layers.CategoryEncoding(5, output_mode="one_hot")(kind),
        layers.Flatten()(layers.Embedding(5, 3)(kind)),
        layers.Flatten()(layers.Resizing(3, 3)(layers.Reshape((2, 2, 1))(x))),
        layers.Flatten()(layers.CenterCrop(1, 1)(layers.Reshape((2, 2, 1))(b))),
        layers.AlphaDropout(0.1)(layers.GaussianDropout(0.1)(a)),
        layers.Flatten()(layers.RandomFlip()(layers.RandomRotation(0.1)(layers.Reshape((2, 2, 1))(a)))),
    ]
    return keras.Model([a, b, kind], layers.Concatenate()(ends), name="merges")


def volume(keras: Any) -> Any:
    """Layers of three dimensions."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.InputLayer(input_shape=(6, 6, 6, 2)),
            layers.Conv3D(3, 3, padding="same", activation="relu"),
            layers.BatchNormalization(axis=4, momentum=0.9),
            layers.MaxPooling3D(2),
            layers.Conv3DTranspose(2, 2, strides=2),
            layers.ZeroPadding3D(1),
            layers.Cropping3D(1),
            layers.AveragePooling3D(2),
            layers.UpSampling3D(2),
            layers.SpatialDropout3D(0.1),
            layers.GlobalMaxPooling3D(),
            layers.Dense(3),
        ],
        name="volume",
    )


def mixed(keras: Any) -> Any:
    """Numbers of mixed precision, an input of bytes and parts that are frozen."""
    layers = keras.layers
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        inputs = keras.Input((5, 5, 1), name="pixels", dtype="uint8")
        x = layers.Rescaling(1 / 255)(inputs)
        x = layers.Conv2D(3, 3, activation=keras.layers.LeakyReLU(0.1), trainable=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Flatten()(x)
        x = layers.Dense(4, activation=tf.nn.gelu)(x)
        x = layers.Activation("sigmoid", dtype="float32")(layers.Dense(2, name="out")(x))
        return keras.Model(inputs, x, name="mixed")
    finally:
        keras.mixed_precision.set_global_policy("float32")


def local(keras: Any) -> Any:
    """A layer that Keras 3 does not have: only tf-keras opens it."""
    layers = keras.layers
    inputs, extra = keras.Input((8, 3), name="signal"), keras.Input((2,), name="extra")
    x = layers.Flatten()(layers.LocallyConnected1D(2, 3, activation="relu")(inputs))
    ends = {"z": layers.Dense(3, name="zz")(x), "a": layers.Concatenate(name="aa")([x, extra])}
    return keras.Model([inputs, extra], ends, name="local")


MODELS: dict[str, Callable[[Any], Any]] = {
    made.__name__: made
    for made in (image, signal, recurrent, cells, attention, operations, nested, decoder, merges, volume, mixed, local)
}
"""The last one is for what Keras 3 does not open."""


def randomized(model: Any) -> None:
    """Gives every weight a value that matters: biases that are not 0, batch norms that have seen data."""
    rng = np.random.default_rng(SEED)
    adapted = {id(weight) for layer in model.layers if hasattr(layer, "adapt") for weight in layer.weights}
    for weight in model.weights:
        if weight.dtype.is_floating and id(weight) not in adapted:
            value = rng.normal(0, 0.4, weight.shape)
            weight.assign(np.abs(value) + 0.3 if "variance" in weight.name else value)


def samples(model: Any) -> dict[str, np.ndarray]:
    """Returns inputs by name."""
    rng = np.random.default_rng(SEED + 1)
    made = {}
    for tensor in model.inputs:
        name, shape = tensor.name.split(":")[0], (SAMPLES, *tensor.shape[1:])
        dtype = tensor.dtype.as_numpy_dtype
        most = 255 if dtype == np.uint8 else 5
        made[name] = (
            rng.normal(size=shape).astype(dtype) if tensor.dtype.is_floating else rng.integers(0, most, shape, dtype)
        )
    return made


def outputs(model: Any, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns what the model computes, in the order of its outputs."""
    given = [tf.constant(array) for array in arrays.values()]
    packed = tf.nest.pack_sequence_as(model.input, given) if isinstance(model.input, (dict, list)) else given[0]
    return [np.asarray(value, "float32") for value in tf.nest.flatten(model(packed, training=False))]


def write(name: str, folder: Path, keras: Any) -> None:
    """Writes one model in each format, with inputs and outputs."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(SEED)
    model = MODELS[name](keras)
    randomized(model)
    arrays = samples(model)
    ends = {f"output_{place}": value for place, value in enumerate(outputs(model, arrays))}
    np.savez_compressed(folder / f"{name}.npz", **arrays, **ends)
    for ending in ("h5", "keras"):
        model.save(folder / f"{name}.{ending}")
    if getattr(model, "optimizer", None):
        # As TensorFlow 2.10 and older write it: loading the whole of it needs the optimizer's class.
        model.compile(keras.optimizers.legacy.Adam(), model.loss)
        model.optimizer._create_all_weights(model.trainable_variables)
    model.save(folder / name, save_format="tf")


def pack(folder: Path, archive: Path) -> None:
    """Writes what the tests read into an archive."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as held:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and (len(inside.parts) == 1 or inside.parts[0] in PACKED):
                entry = zipfile.ZipInfo(inside.as_posix(), (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                held.writestr(entry, path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--zip", type=Path, help="the archive that the tests read")
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--package", default="tensorflow.keras", help="the Keras that writes: tf_keras")
    arguments = parser.parse_args()
    keras = tf.keras if arguments.package == "tensorflow.keras" else importlib.import_module(arguments.package)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        write(name, arguments.folder, keras)
        print(name)
    if arguments.zip:
        pack(arguments.folder, arguments.zip)


if __name__ == "__main__":
    main()
