# %% [markdown]
# # Finding what is unusual
#
# A pump, a motor, a blood sample: often you have many examples of the normal state and few or none of the bad ones.
# Then you cannot train a classifier. An *autoencoder* needs normal examples only. It squeezes each one through a
# narrow layer and rebuilds it. What it has never seen it rebuilds badly, and that error is the alarm.
#
# **Why on the chip.** The alarm needs no network connection, and the raw measurements stay on the device. Only the
# error counts here, so the file must compute it as exactly as Keras did: a threshold that was chosen in Keras has to
# hold on the chip. At the end we count the alarms of both.
#
# This page is the script [examples/tutorials/anomaly.py](../../examples/tutorials/anomaly.py), which VS Code and
# Jupyter open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

import sqp_keras  # from now on Keras knows "squareplus"
from sqp_tflite import export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## The data
#
# scikit-learn ships a chemical analysis of 178 wines, 13 numbers each, from three growers. Our device guards the
# bottling of the first grower: their wine is normal, that of the others is not. We train on 40 of these 59 wines and
# keep the other 19 to see how often a normal wine raises an alarm.
#
# The 13 numbers have different units. We subtract the mean and divide by the spread, both taken from the *training*
# wines only, because those are all that we would have.

# %%
wines, grower = load_wine(return_X_y=True)
order = np.random.default_rng(0).permutation(len(wines))
wines, grower = wines[order], grower[order]
normal, others = wines[grower == 0], wines[grower != 0]
mean, spread = normal[:40].mean(axis=0), normal[:40].std(axis=0)
train, held, others = (((part - mean) / spread).astype("float32") for part in (normal[:40], normal[40:], others))
print(f"{len(train)} normal wines to train; to test {len(held)} normal ones and {len(others)} others")

# %% [markdown]
# ## Train
#
# 13 numbers become 2 and then 13 again. The output should equal the input, so the input is also the target.

# %%
model = keras.Sequential(
    [
        keras.Input((13,), name="wine"),
        layers.Dense(16, activation="squareplus", name="squeeze"),
        layers.Dense(2, activation="squareplus", name="code"),
        layers.Dense(16, activation="squareplus", name="stretch"),
        layers.Dense(13, name="rebuilt"),
    ],
    name="wine",
)
model.compile(keras.optimizers.Adam(1e-2), "mse")
model.fit(train, train, batch_size=20, epochs=80, verbose=0)

# %% [markdown]
# ## The alarm
#
# The error of a wine is the mean square of what the network got wrong. The threshold is the largest error of the
# training wines. *ROC AUC* says how well the error separates the two kinds, whatever the threshold: 1 is perfect, 0.5
# is a coin.


# %%
def errors(rebuild, samples):
    """Returns how badly a network rebuilds each sample."""
    return np.mean((rebuild(samples) - samples) ** 2, axis=-1)


def in_keras(samples):
    """Returns what Keras rebuilds."""
    return model.predict(samples, verbose=0)


threshold = errors(in_keras, train).max()
test, unusual = np.concatenate([held, others]), np.repeat([False, True], [len(held), len(others)])
keras_errors = errors(in_keras, test)
auc = roc_auc_score(unusual, keras_errors)
print(f"threshold {threshold:.2f}; ROC AUC {auc:.3f}")
print(f"alarms: {np.sum(keras_errors[unusual] > threshold)} of {len(others)} other wines,", end=" ")
print(f"{np.sum(keras_errors[~unusual] > threshold)} of {len(held)} normal ones")

# %% [markdown]
# ## Export
#
# We export in float32 and in int8. An int8 number has 256 values, and the data that you pass say how far they must
# reach. Here lies the trap of this page. With normal wines only, the file cuts off what is larger than any normal
# wine, and that is what should raise the alarm. The data must cover what the device may *measure*, not only what is
# normal. We add wines twice as far from the mean, which takes no bad example. `narrow.tflite` shows what happens
# without them.

# %%
reach = np.concatenate([train, 2 * train])
in_float = export(model, "float32.tflite", data={"wine": test}).report
narrow = export(model, "narrow.tflite", quantize="int8", lowering="table", data={"wine": train}).report
in_int8 = export(model, "int8.tflite", quantize="int8", lowering="table", data={"wine": reach}).report
for report in (in_float, narrow, in_int8):
    print(f"{report.verdict}: {report.output}, {report.size_bytes:,} bytes, arena {report.memory.arena_bytes:,} bytes")

# %% [markdown]
# All three verdicts are `ok`, and they are right: each file does what Keras does, on the data that it was given. No
# report can know what your device will measure.
#
# ## The same alarms?
#
# Now we play the device. It turns a measurement into codes, runs the file, and compares what it put in with what came
# out.


# %%
def on_the_device(path, samples):
    """Returns the rebuilding errors that a device computes with a file."""
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    found = []
    for sample in samples:
        if entry["dtype"] == np.int8:
            scale, zero = entry["quantization"]
            codes = np.clip(np.round(sample / scale) + zero, -128, 127).astype("int8")
            sample = scale * (codes.astype("float32") - zero)  # what the device knows of the wine
        else:
            codes = sample
        interpreter.set_tensor(entry["index"], codes[np.newaxis])
        interpreter.invoke()
        rebuilt = interpreter.get_tensor(exit_["index"])[0]
        if exit_["dtype"] == np.int8:
            scale, zero = exit_["quantization"]
            rebuilt = scale * (rebuilt.astype("float32") - zero)
        found.append(np.mean((rebuilt - sample) ** 2))
    return np.array(found)


found = {name: on_the_device(f"{name}.tflite", test) for name in ("float32", "narrow", "int8")}
changed = {name: np.sum((device > threshold) != (keras_errors > threshold)) for name, device in found.items()}
for name, device in found.items():
    print(f"{name:7}: ROC AUC {roc_auc_score(unusual, device):.3f}; {changed[name]} of {len(test)} decisions differ")

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharex=True, sharey=True, layout="constrained")
figure.suptitle("Error of each test wine: int8 with normal wines only (left), and with data that reach further (right)")
for axis, name in zip(axes, ("narrow", "int8"), strict=True):
    for kind, colour, label in ((~unusual, "#2c6fae", "normal"), (unusual, "#c1432e", "other growers")):
        axis.loglog(keras_errors[kind], found[name][kind], "o", color=colour, markersize=4, label=label)
    axis.axvline(threshold, color="#222222", linewidth=0.8)
    axis.axhline(threshold, color="#222222", linewidth=0.8, label="threshold")
    axis.set(xlabel="in Keras", title=f"{name}.tflite")
axes[0].set_ylabel("on the device")
axes[0].legend()
plt.show()

# %% [markdown]
# A wine above and to the right of both lines raises an alarm in both. A wine to the right of the upright line and
# below the other is an alarm that the device misses.
#
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert in_float.verdict == narrow.verdict == in_int8.verdict == "ok"
assert auc > 0.9
assert changed["float32"] == 0
assert changed["int8"] < 0.05 * len(test) < 0.15 * len(test) < changed["narrow"]
assert roc_auc_score(unusual, found["int8"]) > auc - 0.02

# %% [markdown]
# Next: [a network that says how sure it is](../../docs/tutorials/mean_and_sigma.md). For an autoencoder that was
# trained with another activation and is changed afterwards, see
# [examples/anomaly_autoencoder.py](../../examples/anomaly_autoencoder.py).
