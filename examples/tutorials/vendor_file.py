# %% [markdown]
# # A finished `.tflite`, repaired
#
# All you have is an int8 `.tflite` from somebody else. The author says that it reads 96 of 100 digits. You count far
# fewer, and TensorFlow Lite Micro does not load it at all.
#
# **What went wrong.** The usual converter writes softplus as EXP, ADD and LOG. In 8 bits each of these three rounds to
# 256 values, and what comes out at the end is another function. Many interpreters do not even have EXP for int8. The
# weights, however, are right. `sqp-export` finds such functions in the file and puts one table in the place of each.
#
# This page is the script [examples/tutorials/vendor_file.py](../../examples/tutorials/vendor_file.py), which VS Code
# and Jupyter open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sqp_tflite import RefusedError, check, export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## The vendor's file
#
# We play the vendor: a network with softplus and mish, trained in Keras and made int8 by TensorFlow's own converter,
# as its documentation says. Vendors, too, measure the accuracy before the conversion.

# %%
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
x, x_test, y, y_test = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
vendor = keras.Sequential(
    [
        keras.Input((64,), name="image"),
        layers.Dense(40, activation="softplus", name="first"),
        layers.Dense(32, activation="mish", name="second"),
        layers.Dense(10, name="digit"),
    ],
    name="vendor",
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
vendor.compile(keras.optimizers.Adam(5e-3), loss)
vendor.fit(x, y, batch_size=48, epochs=25, verbose=0)
promised = np.mean(np.argmax(vendor.predict(x_test, verbose=0), axis=-1) == y_test)

vendor.export("vendor", verbose=False)
converter = tf.lite.TFLiteConverter.from_saved_model("vendor")
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([image[np.newaxis]] for image in x[:256])
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
converter.inference_input_type = converter.inference_output_type = tf.int8
Path("vendor.tflite").write_bytes(converter.convert())
print(f"the vendor promises {promised:.1%}")

# %% [markdown]
# ## Measure before you mend
#
# From here on we have the file and some labelled images. First we run it as it is.


# %%
def scores(path):
    """Returns the scores that an int8 file gives the test images."""
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = entry["quantization"]
    made = []
    for image in x_test:
        codes = np.clip(np.round(image / scale) + zero, -128, 127).astype("int8")
        interpreter.set_tensor(entry["index"], codes[np.newaxis])
        interpreter.invoke()
        made.append(interpreter.get_tensor(exit_["index"])[0])
    return np.array(made)


before = scores("vendor.tflite")
accuracy_before = np.mean(np.argmax(before, axis=-1) == y_test)
print(f"the file reads {accuracy_before:.1%}")

# %% [markdown]
# And why? `check` runs the file on every interpreter that is installed. There is nothing to compare it with but
# LiteRT's own run of it, so it only tells which interpreters can run it at all.

# %%
runs = {row.runtime: row for row in check("vendor.tflite", "vendor.tflite", {"x": x_test})}
for runtime, row in runs.items():
    print(f"{runtime}: {row.status} {row.reason}")

# %% [markdown]
# So two of three cannot load it, and the third computes something else than the network that was trained. `export`
# takes a `.tflite` like a model and tells what stands in the way of the target, which is TensorFlow Lite Micro if you
# name none.

# %%
try:
    export("vendor.tflite", data={"x": x_test, "y": y_test})
except RefusedError as error:
    refusal = error
    for finding in refusal.findings[:3]:
        print(f"{finding}\n")
    print(f"All of this is solved by: {refusal.report.solution}")

# %% [markdown]
# ## Repair
#
# `lowering="table"` replaces every function of one int8 tensor, however many operators it has, by a table of its 256
# values. The table holds what the operators mean, computed exactly and rounded once. The given file is never changed;
# the repaired one is new.
#
# Pass labels, under `y`. The old file is wrong, so it cannot be the measure. With labels the report compares the
# accuracy of both files, and a repair that made it worse would be refused.

# %%
made = export("vendor.tflite", "repaired.tflite", lowering="table", data={"x": x_test, "y": y_test})
report = made.report
print(f"{report.verdict}: {report.size_bytes:,} bytes; not proven: {', '.join(report.unproven) or 'nothing'}")
for row in report.ops:
    print(f"  {row.count} x {row.op}, {row.dtype}")
print("\n".join(report.notes))

# %%
after = scores("repaired.tflite")
accuracy_after = np.mean(np.argmax(after, axis=-1) == y_test)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", width_ratios=(1, 2))
figure.suptitle("Test images read correctly (left), and how often each digit is answered (right)")
names, colours = ("promised", "as it came", "repaired"), ("#8a8a8a", "#c1432e", "#2c6fae")
left.bar(names, (promised, accuracy_before, accuracy_after), color=colours)
for values, name, colour, shift in ((before, names[1], colours[1], -0.2), (after, names[2], colours[2], 0.2)):
    right.bar(
        np.arange(10) + shift, np.bincount(np.argmax(values, axis=-1), minlength=10), 0.4, color=colour, label=name
    )
right.set(xlabel="digit", ylabel="answers", xticks=range(10))
right.legend()
plt.show()

# %% [markdown]
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert promised > 0.95
assert accuracy_before < promised - 0.2
assert runs["tflm"].status == "failed" and runs["litert"].status == "ok"
assert {"EXP", "LOG"} <= {finding.op for finding in refusal.findings}
assert report.verdict == "ok" and not report.unproven
assert not {"EXP", "LOG", "TANH"} & {row.op for row in report.ops}
assert accuracy_after > promised - 0.02

# %% [markdown]
# Next: [everything about finished files](../../docs/finished_files.md), float files and those of PyTorch among them.
