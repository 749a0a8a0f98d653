# %% [markdown]
# # An old model file, made fit for a chip
#
# You have a `.h5` file from a colleague who has left. It works in Keras. Nobody wants to train it again; perhaps the
# data are gone. Now it has to run on a microcontroller.
#
# **What is in the way.** The network uses SiLU, `x * sigmoid(x)`, and ends in a softmax. Both need `exp`. A chip
# computes it in software, which takes [time and code](../../docs/speed.md), and in 8 bits some of the usual
# conversions of such activations [give wrong answers](../../docs/tutorials/vendor_file.md). This page first shows the
# refusal, and then the two options that remove the cause without training.
#
# This page is the script [examples/tutorials/old_h5.py](../../examples/tutorials/old_h5.py), which VS Code and Jupyter
# open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
import keras
import numpy as np
from keras import layers
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sqp_keras
from sqp_tflite import RefusedError, check, export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## The old file
#
# We have no colleague who has left, so we make the file here: scikit-learn's digits, SiLU, softmax. The script then
# works with nothing but the file and some images.

# %%
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
x, x_test, y, y_test = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
trained = keras.Sequential(
    [
        keras.Input((64,), name="image"),
        layers.Dense(48, activation="silu", name="first"),
        layers.Dense(32, activation="silu", name="second"),
        layers.Dense(10, activation="softmax", name="digit"),
    ],
    name="old",
)
trained.compile(keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy")
trained.fit(x, y, batch_size=48, epochs=20, verbose=0)
trained.save("old.h5")

# %% [markdown]
# ## The refusal
#
# The first try is the plain one. `export` refuses it, writes nothing, and lists every reason with its layer and a way
# out. On the command line this is `sqp-export old.h5`.

# %%
data = {"image": x_test, "y": y_test}
try:
    export("old.h5", "old.tflite", data=data)
except RefusedError as error:
    refusal = error
    for finding in refusal.findings:
        print(f"{finding}\n")
    print(f"All of this is solved by: {refusal.report.solution}")

# %% [markdown]
# ## The remedy
#
# The last line has been tried by `export` itself. It names two options.
#
# - `replace="accurate"` exchanges each SiLU for a short sum of square roots, which stays within a thousandth of it.
#   The weights remain as they are.
# - `head="logits"` drops the softmax. The outputs are scores then, no longer probabilities. The largest one still
#   wins. If your program uses the probabilities themselves, keep in mind that it now gets something else. That is why
#   this is never done without being asked.
#
# The file on disk is only read.

# %%
report = export("old.h5", "old.tflite", replace="accurate", head="logits", data=data).report
print(f"{report.verdict}: {report.size_bytes:,} bytes")
for row in report.plan:
    print(f"  {row.layer}: {row.activation}")
for change in report.replacements:
    print(f"  {change.layer}: {change.was} became {change.now}, largest change {change.max_change:.1e}")

# %% [markdown]
# ## What did it change?
#
# The report compares the new file twice. `given` is your old model: this row says what the exchange changed in all.
# `written` is the model with the new activations: this row proves that the conversion itself was right.

# %%
for row in report.agreement:
    if row.runtime == "tflm":
        words = f", accuracy {row.metric_after:.1%}, Keras {row.metric_before:.1%}" if row.metric else ""
        print(f"against {row.against}: largest error {row.error_of_range:.1e} of the range{words}")

# %% [markdown]
# For int8 add two options. The sum of square roots becomes a table of 256 entries, so its length costs nothing. As
# always, training images give the ranges, and the test images give the accuracy. `check` knows from the file that it
# has no softmax.

# %%
options = {"replace": "accurate", "head": "logits", "quantize": "int8", "lowering": "table"}
in_int8 = export("old.h5", "old_int8.tflite", data={"image": x, "y": y}, **options).report
tested = check("old.h5", "old_int8.tflite", data)[0]
print(f"{in_int8.verdict}: {in_int8.size_bytes:,} bytes")
print(f"on the test images: accuracy {tested.metric_after:.1%}, Keras {tested.metric_before:.1%}")

# %% [markdown]
# ## The new activation
#
# This is SiLU, and what stands in its place. You can use it in Keras, too: it is a layer.

# %%
points = np.linspace(-8, 8, 400, dtype="float32")
silu = np.asarray(keras.activations.silu(points))
sums = {terms: np.asarray(sqp_keras.algebraic(points, "silu", terms=terms)) for terms in (2, 5)}
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
figure.suptitle("SiLU and sums of square roots (left), and their difference (right)")
left.plot(points, silu, color="#222222", label="SiLU")
for (terms, values), colour in zip(sums.items(), ("#c1432e", "#2c6fae"), strict=True):
    left.plot(points, values, "--", color=colour, label=f"{terms} roots")
    right.plot(points, values - silu, color=colour, label=f"{terms} roots")
left.legend()
right.legend()
plt.show()

# %% [markdown]
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert {finding.layer for finding in refusal.findings} == {"first", "second", "digit"}
assert report.verdict == in_int8.verdict == "ok"
assert not {"EXP", "LOGISTIC", "SOFTMAX"} & {row.op for row in (*report.ops, *in_int8.ops)}
assert report.worst("tflm", "given").metric_after > report.worst("tflm", "given").metric_before - 0.005
assert tested.status == "ok" and tested.metric_after > tested.metric_before - 0.02
assert np.abs(sums[5] - silu).max() < np.abs(sums[2] - silu).max()

# %% [markdown]
# Next: [everything about existing models](../../docs/existing_models.md), files of Keras 2 among them, or [a `.tflite`
# without its source](../../docs/tutorials/vendor_file.md).
