"""Writes the TFLite files that interpreters.py times: single activations of several sizes, and two whole networks.

python -m benchmarks.interpreter_models FOLDER

"stock" is what TensorFlow's converter makes of the framework's own activation, "ours" what `sqp_tflite.export` or the
same operators give. A manifest beside the files says what each is.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import sqp_keras
import sqp_tflite
from examples import digits

SIZES = (4096, 65536, 1048576)
RANGE = 6.0  # inputs of the single activations: [-RANGE, RANGE]
L = keras.layers


@dataclass(frozen=True, slots=True)
class Case:
    """One file: what it holds, who made it, and its operators in order."""

    file: str
    group: str
    """`activation 4096 float32`, `demo CNN int8` ...: the cases that stand in one table."""
    name: str
    ops: tuple[str, ...]
    bytes: int


def squareplus_in_a_network(z: Any) -> Any:
    """Returns squareplus at b = 4 as the export writes it behind a linear layer, which has taken over the half."""
    return z + tf.sqrt(z * z + 1.0)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "squareplus (ours)": squareplus_in_a_network,
    "squareplus (stock)": keras.activations.squareplus,
    "softplus": tf.nn.softplus,
    "elu": tf.nn.elu,
    "silu": lambda x: x * tf.sigmoid(x),
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
}
LOWERINGS = {"table": "table", "island": "algebraic", "int16": "integer"}


def samples(shape: tuple[int, ...], count: int = 3) -> np.ndarray:
    """Returns seeded inputs that reach both ends of the range."""
    values = np.random.default_rng(1).uniform(-RANGE, RANGE, (count, *shape)).astype(np.float32)
    values.reshape(count, -1)[:, :2] = -RANGE, RANGE
    return values


def stock(function: Callable, shape: tuple[int, ...], dtype: str, data: np.ndarray) -> bytes:
    """Returns what TensorFlow's converter makes of a function or a model, at batch 1."""
    concrete = tf.function(lambda x: function(x)).get_concrete_function(tf.TensorSpec((1, *shape), tf.float32))
    frozen = convert_variables_to_constants_v2(concrete)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if dtype == "int8":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([sample[None]] for sample in data)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def demo_cnn(activation: str) -> keras.Model:
    """Returns the network of `make demo` with another activation in place of squareplus."""
    config = json.dumps(digits.build().get_config())
    return keras.Sequential.from_config(json.loads(config.replace('"squareplus"', f'"{activation}"')))


def ds_cnn(activation: str) -> keras.Model:
    """Returns the keyword-spotting network DS-CNN (49 frames of 10 features), logits out."""
    layers = [keras.Input((49, 10, 1)), L.Conv2D(64, (10, 4), strides=2, padding="same"), L.BatchNormalization()]
    layers += [L.Activation(activation)]
    for _ in range(4):
        layers += [L.DepthwiseConv2D(3, padding="same"), L.BatchNormalization(), L.Activation(activation)]
        layers += [L.Conv2D(64, 1), L.BatchNormalization(), L.Activation(activation)]
    return keras.Sequential([*layers, L.AveragePooling2D((25, 5)), L.Flatten(), L.Dense(12)])


NETWORKS = {"demo CNN": demo_cnn, "DS-CNN": ds_cnn}


def activation_files(sizes: tuple[int, ...]) -> Iterator[tuple[str, str, bytes]]:
    """Yields (group, name, file) for every single activation."""
    for size in sizes:
        data = samples((size,))
        for name, function in ACTIVATIONS.items():
            yield f"activation {size} float32", name, stock(function, (size,), "float32", data)
            if name != "squareplus (ours)":
                yield f"activation {size} int8", name, stock(function, (size,), "int8", data)
        inputs = keras.Input((size,))
        model = keras.Model(inputs, L.Activation(sqp_keras.squareplus)(inputs))
        for name, lowering in LOWERINGS.items():
            done = sqp_tflite.export(model, quantize="int8", lowering=lowering, data={"x": data})
            yield f"activation {size} int8", f"squareplus (ours, {name})", done.model_bytes


def network_files() -> Iterator[tuple[str, str, bytes]]:
    """Yields (group, name, file) for the whole networks; weights are random but the same for every activation."""
    for title, build in NETWORKS.items():
        for activation in ("relu", "softplus", "elu", "silu", "squareplus"):
            keras.utils.set_random_seed(3)
            model = build(activation)
            data = np.random.default_rng(2).uniform(-1, 1, (64, *model.input_shape[1:])).astype(np.float32)
            if activation != "squareplus":
                for dtype in ("float32", "int8"):
                    yield f"{title} {dtype}", activation, stock(model, model.input_shape[1:], dtype, data)
                continue
            yield f"{title} float32", "squareplus (ours)", sqp_tflite.export(model, data={"x": data}).model_bytes
            for name, lowering in LOWERINGS.items():
                done = sqp_tflite.export(model, quantize="int8", lowering=lowering, data={"x": data})
                yield f"{title} int8", f"squareplus (ours, {name})", done.model_bytes


def write(folder: Path, sizes: tuple[int, ...] = SIZES, *, networks: bool = True) -> list[Case]:
    """Writes all files and manifest.json into `folder` and returns what the manifest says."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for group, name, content in (*activation_files(sizes), *(network_files() if networks else ())):
        file = f"{len(cases):03d}.tflite"
        (folder / file).write_bytes(content)
        ops = tuple(op.name for _, op in sqp_tflite.inspect(content).all_ops())
        cases.append(Case(file, group, name, ops, len(content)))
    (folder / "manifest.json").write_text(json.dumps([asdict(case) for case in cases], indent=1))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the TFLite files whose latency is measured.")
    parser.add_argument("folder", type=Path)
    for case in write(parser.parse_args().folder):
        print(f"{case.group:28} {case.name:28} {' '.join(case.ops[:12])}")


if __name__ == "__main__":
    main()
