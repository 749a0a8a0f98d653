"""The good inputs that cases damage: small models in each format, their data, their TFLite files, hidden code.

`python -m tools.fuzz.corpus FOLDER` makes them; the fuzzer does that once, in another process, since TensorFlow must
not have computed in a process that is copied.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.fuzz.archives import archive, members
from tools.fuzz.records import PAYLOAD

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The content of all inputs.

    Attributes:
        models: Files by path, by the name of the model: one for a file, several for a SavedModel.
        hidden: The same for models with code that must not run.
        data: `.npz` files by name.
        tflite: TFLite files by name.
    """

    models: Mapping[str, Files]
    hidden: Mapping[str, Files]
    data: Mapping[str, bytes]
    tflite: Mapping[str, bytes]

    def data_of(self, model: str) -> str:
        """Returns the name of the data file of a model or of its TFLite file."""
        name = f"{model.partition('.')[0].removesuffix('_saved').removesuffix('8')}.npz"
        return name if name in self.data else "net.npz"


def read(folder: Path) -> Corpus:
    """Returns the content of a corpus."""

    def held(kind: str) -> dict[str, Files]:
        found = {}
        for path in sorted((folder / kind).iterdir()):
            inner = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            found[path.name] = {str(p.relative_to(folder / kind)): p.read_bytes() for p in inner}
        return found

    flat = {kind: {name: files[name] for name, files in held(kind).items()} for kind in ("data", "tflite")}
    return Corpus(held("models"), held("hidden"), flat["data"], flat["tflite"])


def make(folder: Path, *, large: bool = True) -> None:
    """Makes a corpus.

    Args:
        folder: Where; it must exist.
        large: Whether to make all of it, which takes about half a minute; else one model and no TFLite file.
    """
    import numpy as np

    for kind in ("models", "hidden", "data", "tflite"):
        (folder / kind).mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    for name, build in (_MODELS if large else {"net": _net}).items():
        model = build()
        for ending in (".keras", ".h5"):
            model.save(folder / "models" / f"{name}{ending}")
        _without_date(folder / "models" / f"{name}.keras")
        if name in ("net", "conv"):
            model.export(folder / "models" / f"{name}_saved", verbose=False)
        inputs = {t.name: generator.standard_normal((8, *t.shape[1:])).astype("f4") for t in model.inputs}
        np.savez(folder / "data" / f"{name}.npz", **inputs, y=generator.integers(0, 2, 8))
        if large:
            _export(model, folder, name, inputs, integer=name != "rnn")
    _hidden(folder / "hidden")


def _export(model: Any, folder: Path, name: str, inputs: dict[str, Any], *, integer: bool) -> None:
    from sqp_tflite import export

    export(model, folder / "tflite" / f"{name}.tflite", target="litert", replace="accurate", head="logits")
    if integer:
        export(
            model, folder / "tflite" / f"{name}8.tflite", quantize="int8", data=inputs, lowering="table", head="logits"
        )


def _net() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    L = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,), name="x"),
            L.Dense(6, activation="softplus", name="hidden"),
            L.Dropout(0.1),
            L.Dense(2, name="out"),
        ],
        name="net",
    )


def _conv() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    L = keras.layers
    image = keras.Input((8, 8, 1), name="image")
    x = L.BatchNormalization()(L.Conv2D(4, 3, padding="same", use_bias=False)(image))
    x = L.Activation("squareplus")(x)
    x = L.Add()([x, L.DepthwiseConv2D(3, padding="same", activation="relu")(x)])
    x = L.GlobalAveragePooling2D()(L.MaxPooling2D()(x))
    return keras.Model(image, L.Dense(3, activation="softmax", name="head")(x), name="conv")


def _rnn() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    L = keras.layers
    return keras.Sequential([keras.Input((5, 3), name="steps"), L.LSTM(4), L.Dense(2)], name="rnn")


def _two() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    L = keras.layers
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    joined = L.Concatenate()([L.Dense(5, activation="elu")(a), L.Reshape((3,))(b)])
    return keras.Model({"a": a, "b": b}, {"p": L.Dense(2, name="p")(joined), "q": L.Dense(1, name="q")(joined)})


_MODELS: Mapping[str, Callable[[], Any]] = {"net": _net, "conv": _conv, "rnn": _rnn, "two": _two}


def _without_date(path: Path) -> None:
    held = dict(members(path.read_bytes()))
    held["metadata.json"] = json.dumps(json.loads(held["metadata.json"]) | {"date_saved": ""}).encode()
    path.write_bytes(archive(list(held.items())))


def _hidden(folder: Path) -> None:
    """Writes models with code: a lambda in both formats, operators that write a file when loaded or when run."""
    import keras
    import tensorflow as tf

    def act(x: Any) -> Any:
        open(PAYLOAD, "w").close()
        return x

    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Lambda(act), keras.layers.Dense(2)])
    for ending in (".keras", ".h5"):
        (Path(folder) / f"code{ending}").unlink(missing_ok=True)
        model.save(folder / f"code{ending}")
        Path(PAYLOAD).unlink(missing_ok=True)
    _without_date(folder / "code.keras")

    class Writes(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, 4))])
        def __call__(self, x: Any) -> Any:
            tf.io.write_file(PAYLOAD, "x")
            return {"y": x}

    written = Writes()
    tf.saved_model.save(written, str(folder / "writes"), signatures=written.__call__)
    tf.saved_model.save(_starting(), str(folder / "starts"))
    _old(folder / "old")
    _restoring(folder / "old", folder / "restores")


def _starting() -> Any:
    """Returns a module whose resource writes a file when it is loaded."""
    import tensorflow as tf
    from tensorflow.python.trackable.resource import CapturableResource

    class Resource(CapturableResource):
        def _create_resource(self) -> Any:
            return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self) -> None:
            tf.io.write_file(PAYLOAD, "x")

    made = tf.Module()
    made.resource = Resource()
    _ = made.resource.resource_handle
    made.call = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec((1, 4))])
    return made


def _old(folder: Path) -> None:
    """Writes a SavedModel of TensorFlow 1, whose initialiser writes a file."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (1, 4), name="x")
        y = tf.identity(x * v1.get_variable("w", (4,)), name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(
            session, str(folder), {"x": x}, {"y": y}, legacy_init_op=tf.io.write_file(PAYLOAD, "x")
        )


def _restoring(source: Path, target: Path) -> None:
    """Writes a copy of a SavedModel of TensorFlow 1 whose file is written by the part that restores variables."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    shutil.copytree(source, target)
    model = SavedModel.FromString((target / "saved_model.pb").read_bytes())
    (graph,) = model.meta_graphs
    nodes = {node.name: node for node in graph.graph_def.node}
    nodes[graph.saver_def.restore_op_name].input.append("^WriteFile")
    graph.collection_def.clear()
    for name in [name for name in graph.signature_def if name.startswith("_")]:
        del graph.signature_def[name]
    (target / "saved_model.pb").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    make(Path(sys.argv[1]))
