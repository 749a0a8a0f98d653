# %% [markdown]
# # A number, and how sure it is
#
# A network that predicts a number is more useful if it also says how far off it may be. Then the device can act on
# sure predictions and ask a person about the others. We train a network with two outputs: *mean*, the prediction, and
# *sigma*, its expected error.
#
# **Why squareplus.** Sigma must be positive. Usually softplus makes it so, with `exp` and `log`. Squareplus is also
# positive everywhere and smooth, and needs a square root only. Two traps are on the way: a sigma that shrinks to
# nothing in training, and a small sigma in 8 bits.
#
# This page is the script [examples/tutorials/mean_and_sigma.py](../../examples/tutorials/mean_and_sigma.py), which VS
# Code and Jupyter open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from keras import layers, ops
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import sqp_keras
from sqp_tflite import export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## The data
#
# scikit-learn ships ten measurements of 442 patients with diabetes, and how far the disease had gone a year later, a
# number from 25 to 346. We bring all of them to a mean of 0 and a spread of 1, which training likes.

# %%
x, progression = load_diabetes(return_X_y=True)
x = (x / x.std(axis=0)).astype("float32")
middle, unit = progression.mean(), progression.std()
y = ((progression - middle) / unit).astype("float32")[:, np.newaxis]
x, x_test, y, y_test = train_test_split(x, y, test_size=110, random_state=1)
print(f"{len(x)} patients to train, {len(x_test)} to test; a spread of 1 is {unit:.0f} of the original unit")

# %% [markdown]
# ## Build
#
# Both outputs share the first layer. `Squareplus(floor=0.1)` is squareplus plus 0.1, so sigma stays above a tenth of
# the spread. Without a floor, the network could claim to be perfectly sure about a training patient. The loss, which
# divides by sigma, would then run away.

# %%
patient = keras.Input((10,), name="patient")
body = layers.Dense(16, activation="squareplus", kernel_regularizer=keras.regularizers.L2(3e-3), name="body")(patient)
mean = layers.Dense(1, name="mean")(body)
raw = layers.Dense(1, name="raw_sigma", bias_initializer=keras.initializers.Constant(-1.0))(body)
sigma = sqp_keras.Squareplus(b=1.0, floor=0.1, name="sigma")(raw)
model = keras.Model(patient, layers.Concatenate(name="mean_and_sigma")([mean, sigma]), name="progression")

# %% [markdown]
# ## Train
#
# The loss is the likelihood of the normal distribution. A large error costs less if sigma is large, and a large sigma
# costs something by itself. So the network learns the sigma that fits its own errors. Nobody tells it the right one.


# %%
def likelihood(target, made):
    """Returns the negative log likelihood of the targets."""
    return ops.mean(ops.log(made[:, 1:]) + 0.5 * ops.square((target - made[:, :1]) / made[:, 1:]), axis=-1)


model.compile(keras.optimizers.Adam(4e-3), likelihood)
model.fit(x, y, batch_size=32, epochs=60, verbose=0)
made = model.predict(x_test, verbose=0)
gap = np.abs(y_test[:, 0] - made[:, 0])
surest = np.argsort(made[:, 1])[: len(gap) // 2]
unsure = np.argsort(made[:, 1])[len(gap) // 2 :]
within = [np.mean(gap < times * made[:, 1]) for times in (1, 2)]
print(f"within one sigma: {within[0]:.0%} of the patients; within two: {within[1]:.0%}")
print(f"mean error of the surer half {unit * gap[surest].mean():.0f}, the other half {unit * gap[unsure].mean():.0f}")

# %% [markdown]
# For a normal distribution 68 % and 95 % would be right. The second line is the use of it all: where the network says
# that it is sure, its error is smaller.
#
# ## Export
#
# The exported file is compared with Keras on the test patients. `export` also says how the activations were written.

# %%
report = export(model, "progression.tflite", data={"patient": x_test}).report
print(f"{report.verdict}: {report.size_bytes:,} bytes, error {report.worst('tflm').error_of_range:.1e} of the range")
for row in report.plan:
    print(f"  {row.layer}: {row.activation} becomes {row.becomes}")

# %% [markdown]
# ## The trap: a small sigma in 8 bits
#
# An int8 output has 256 values for all that it holds. Here mean goes from about -2 to 2, and sigma from about 0.4 to
# 1.4. If both share one tensor, they share one scale, and sigma gets only a few dozen of the values. Give each its own
# output tensor, and each gets its own scale. Weights do not change by this: it is the same network without the last
# layer.
#
# The ranges come from the data that you pass, and an int8 number cannot leave its range. A patient who is further out
# than all in the data would get a sigma that is too small, just where the network is least sure. So we pass patients
# half as far out again, too: `1.5 * x`.

# %%
apart = keras.Model(patient, [mean, sigma], name="apart")
reach = {"patient": np.concatenate([x, 1.5 * x])}
together_int8 = export(model, "together.tflite", quantize="int8", data=reach).report
apart_int8 = export(apart, "apart.tflite", quantize="int8", data=reach).report
for output in (*together_int8.outputs, *apart_int8.outputs):
    print(f"one step of `{output.name}` is {output.scale:.4f}")

# %%
interpreter = Interpreter("apart.tflite")
interpreter.allocate_tensors()
entry = interpreter.get_input_details()[0]
mean_place, sigma_place = interpreter.get_output_details()


def in_int8(row):
    """Returns mean and sigma of one patient from the int8 file."""
    scale, zero = entry["quantization"]
    codes = np.clip(np.round(row / scale) + zero, -128, 127).astype("int8")
    interpreter.set_tensor(entry["index"], codes[np.newaxis])
    interpreter.invoke()
    values = []
    for place in (mean_place, sigma_place):
        scale, zero = place["quantization"]
        values.append(scale * (int(interpreter.get_tensor(place["index"])[0, 0]) - zero))
    return values


small = np.array([in_int8(row) for row in x_test])
change = np.abs(small - made).max(axis=0)
print(f"largest change by 8 bits: mean {unit * change[0]:.1f}, sigma {unit * change[1]:.1f}")
print(f"mean error of the predictions, to compare: {unit * gap.mean():.0f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
figure.suptitle("Predictions with one sigma (left), and sigma in Keras and in int8 (right)")
order = np.argsort(made[:, 0])[::3]
left.errorbar(
    np.arange(len(order)), middle + unit * made[order, 0], unit * made[order, 1], fmt="o", ms=3, color="#2c6fae", lw=1
)
left.plot(np.arange(len(order)), middle + unit * y_test[order, 0], "x", color="#c1432e", ms=5, label="what happened")
left.set(xlabel="patients, by their prediction", ylabel="progression")
left.legend(loc="upper left")
right.plot(unit * made[:, 1], unit * small[:, 1], "o", ms=3, color="#2c6fae")
right.axline((unit * 0.6, unit * 0.6), slope=1, color="#222222", lw=0.8)
right.set(xlabel="sigma in Keras", ylabel="sigma in the int8 file")
plt.show()

# %% [markdown]
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert report.verdict == together_int8.verdict == apart_int8.verdict == "ok"
assert 0.5 < within[0] < 0.85 < within[1]
assert gap[surest].mean() < gap[unsure].mean()
assert made[:, 1].min() > 0.1
assert small[:, 1].min() > 0.1
assert apart_int8.outputs[1].scale < together_int8.outputs[0].scale / 2
assert change[1] < 0.1

# %% [markdown]
# Next: [a stream with states](../../docs/tutorials/stream.md). For a network that was trained with softplus and is
# changed afterwards, see [examples/mean_sigma_regression.py](../../examples/mean_sigma_regression.py).
