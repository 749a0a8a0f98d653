# %% [markdown]
# # Digits, end to end
#
# A small chip with a camera should read a handwritten digit. You train a network in Keras, turn it into two files for
# the chip, and find out whether they still read digits as well as Keras does.
#
# **Why this needs care.** The program that runs a network on a chip, such as TensorFlow Lite Micro, knows fewer
# operators than Keras, and some of them only for some types of numbers. A network that trains well may not load there,
# or may load and give other answers. The usual causes are `exp` and `log`, which hide in activations such as softplus
# and SiLU. *Squareplus* is a smooth activation that needs neither: it adds, multiplies and takes a square root.
#
# This page is the script [examples/tutorials/digits.py](../../examples/tutorials/digits.py), which VS Code and Jupyter
# open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sqp_keras  # from now on Keras knows "squareplus"
from sqp_tflite import check, export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## The data
#
# scikit-learn ships 1797 digits of 8 by 8 pixels. We keep a fifth of them for the test, and never train on those.

# %%
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)
x, x_test, y, y_test = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
print(f"{len(x)} images to train, {len(x_test)} to test, pixels from {x.min():g} to {x.max():g}")

# %% [markdown]
# ## Train
#
# There is nothing new here except the word `"squareplus"`. The last layer has no softmax. It gives one score per
# digit, and the largest score wins. The loss knows that: `from_logits=True`. A softmax would need `exp` on the chip
# and would not change which score is the largest.

# %%
model = keras.Sequential(
    [
        keras.Input((8, 8, 1), name="image"),
        layers.Conv2D(16, 3, name="strokes"),
        layers.BatchNormalization(),
        layers.Activation("squareplus"),
        layers.Conv2D(24, 3, strides=2, name="parts"),
        layers.BatchNormalization(),
        layers.Activation("squareplus"),
        layers.Flatten(name="flat"),
        layers.Dropout(0.3),
        layers.Dense(10, name="digit"),
    ],
    name="digits",
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
rate = keras.optimizers.schedules.CosineDecay(0.01, 15 * len(x) // 32)
model.compile(keras.optimizers.Adam(rate), loss)
model.fit(x, y, batch_size=32, epochs=15, verbose=0)
keras_answers = np.argmax(model.predict(x_test, verbose=0), axis=-1)
keras_accuracy = np.mean(keras_answers == y_test)
print(f"Keras reads {keras_accuracy:.1%} of the test images correctly")

# %% [markdown]
# ## Export in float32
#
# `export` converts the model. Then it runs the file on the real interpreters and compares every output with Keras's.
# The file is written only if all of that went well. The data serve for this comparison; with the labels, under `y`, it
# also measures the accuracy.

# %%
in_float = export(model, "digits.tflite", data={"image": x_test, "y": y_test}).report
print(f"{in_float.verdict}: {in_float.output}, {in_float.size_bytes:,} bytes for {in_float.target}")
for row in in_float.ops:
    print(f"  {row.count} x {row.op}, {row.dtype}")

# %% [markdown]
# ## Read the verdict
#
# `ok` is the verdict. It means: the target, here `tflm` for TensorFlow Lite Micro, has every operator in the file, its
# interpreter ran the file, and the outputs agree with Keras. You see the three operators of squareplus in the list:
# ADD, MUL and SQRT. There is one row for each interpreter that is installed. The error is the largest one over all
# test images, as a share of the range of the scores.


# %%
def show(rows):
    """Prints how a file agrees with Keras."""
    for row in rows:
        print(f"{row.runtime:15} {row.status:3} error {row.error_of_range:.1e}  accuracy {row.metric_after:.1%}")


show(in_float.agreement)

# %% [markdown]
# ## Export in int8
#
# Most chips are fastest with whole numbers of 8 bits. The file gets smaller, too. Each tensor then needs a scale: how
# large is one step? To find out, `export` watches the ranges of all tensors on a few hundred *training* images.
# `lowering="table"` turns each activation into a table of 256 entries, one for each number that 8 bits can hold.
#
# Then `check` compares the file with Keras on the *test* images, which neither the training nor the scales have seen.

# %%
in_int8 = export(model, "digits_int8.tflite", quantize="int8", lowering="table", data={"image": x[:256], "y": y[:256]})
rows = [row for row in check(model, "digits_int8.tflite", {"image": x_test, "y": y_test}) if row.metric]
print(f"{in_int8.report.verdict}: {in_int8.report.size_bytes:,} bytes instead of {in_float.size_bytes:,}")
show(rows)

# %% [markdown]
# The error is larger now: a few of the 256 steps that 8 bits have. The accuracy hardly moves. Decide by that number.
#
# ## Look at the answers
#
# To see single answers we run the int8 file ourselves, as firmware would. Each pixel becomes a code, `pixel / scale +
# zero_point`, rounded. The largest code at the output wins.

# %%
interpreter = Interpreter("digits_int8.tflite")
interpreter.allocate_tensors()
entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
scale, zero_point = entry["quantization"]


def read_digit(image):
    """Returns the digit that the int8 file reads in an image."""
    codes = np.clip(np.round(image / scale) + zero_point, -128, 127).astype("int8")
    interpreter.set_tensor(entry["index"], codes[np.newaxis])
    interpreter.invoke()
    return np.argmax(interpreter.get_tensor(exit_["index"]))


int8_answers = np.array([read_digit(image) for image in x_test])
same = np.mean(int8_answers == keras_answers)
print(f"Keras and the int8 file give the same answer for {same:.1%} of the test images")

# %% [markdown]
# The picture shows the images with the closest decisions, where the best two scores of Keras are nearest to each
# other. If 8 bits change an answer, they change it here, and its title is red.

# %%
scores = np.sort(model.predict(x_test, verbose=0), axis=-1)
closest = np.argsort(scores[:, -1] - scores[:, -2])[:12]
figure, axes = plt.subplots(2, 6, figsize=(7.5, 3.4), layout="constrained")
figure.suptitle("The twelve closest decisions: what it is, and both answers")
for place, axis in zip(closest, axes.flat, strict=True):
    axis.imshow(x_test[place, ..., 0], cmap="gray_r")
    axis.set_axis_off()
    agree = keras_answers[place] == int8_answers[place]
    title = f"is {y_test[place]}\nKeras {keras_answers[place]}, int8 {int8_answers[place]}"
    axis.set_title(title, fontsize=9, color="black" if agree else "#c1432e")
plt.show()

# %% [markdown]
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert in_float.verdict == in_int8.report.verdict == "ok"
assert not {"EXP", "LOG", "SOFTMAX"} & {row.op for row in in_float.ops}
assert keras_accuracy > 0.95
assert same > 0.97
assert all(row.status == "ok" and row.metric_after > keras_accuracy - 0.02 for row in rows)
assert in_int8.report.size_bytes < in_float.size_bytes

# %% [markdown]
# Next: [the file on a board](../../docs/five-minutes.md), [which numbers for which chip](../../docs/quantization.md),
# or [a model that you already have](../../docs/tutorials/old_h5.md).
