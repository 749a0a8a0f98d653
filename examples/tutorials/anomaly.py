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
# We export in float32 and in int8. For the int8 file the choice of the data is the trap of this page. The data tell
# the file how large each number may become. With normal wines only, larger numbers would be cut off, and these are the
# very ones that should raise the alarm. So the data must cover what the device may *measure*, not only what is normal.
# We add wines that lie twice as far from the mean. That needs no bad examples.

# %%
reach = np.concatenate([train, 2 * train])
in_float = export(model, "wine.tflite", data={"wine": test}).report
in_int8 = export(model, "wine_int8.tflite", quantize="int8", lowering="table", data={"wine": reach}).report
for report in (in_float, in_int8):
    print(f"{report.verdict}: {report.output}, {report.size_bytes:,} bytes, arena {report.memory.arena_bytes:,} bytes")

# %% [markdown]
# ## The same alarms?
#
# `run_file` runs either file with LiteRT. Where the file has integers, it converts the numbers on the way in and out.


# %%
def run_file(path, samples):
    """Returns what a file makes of each sample."""
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    made = []
    for sample in samples:
        if entry["dtype"] == np.int8:
            scale, zero = entry["quantization"]
            sample = np.clip(np.round(sample / scale) + zero, -128, 127).astype("int8")
        interpreter.set_tensor(entry["index"], sample[np.newaxis])
        interpreter.invoke()
        value = interpreter.get_tensor(exit_["index"])[0]
        if exit_["dtype"] == np.int8:
            scale, zero = exit_["quantization"]
            value = (value.astype("float32") - zero) * scale
        made.append(value)
    return np.array(made)


alarms = {"Keras": keras_errors > threshold}
for name, path in {"float32 file": "wine.tflite", "int8 file": "wine_int8.tflite"}.items():
    file_errors = errors(lambda samples, path=path: run_file(path, samples), test)
    alarms[name] = file_errors > threshold
    different = np.sum(alarms[name] != alarms["Keras"])
    print(f"{name}: ROC AUC {roc_auc_score(unusual, file_errors):.3f}; {different} of {len(test)} decisions differ")

# %%
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
figure.suptitle("Rebuilding error of each test wine, in Keras and in the int8 file")
for kind, colour, name in ((~unusual, "#2c6fae", "normal"), (unusual, "#c1432e", "other growers")):
    axis.loglog(keras_errors[kind], file_errors[kind], "o", color=colour, markersize=4, label=name)
axis.axvline(threshold, color="#222222", linewidth=0.8)
axis.axhline(threshold, color="#222222", linewidth=0.8, label="threshold")
axis.set(xlabel="error in Keras", ylabel="error in the int8 file")
axis.legend()
plt.show()

# %% [markdown]
# A point above and to the right of both lines raises an alarm in both. Points in the other two corners would be
# decisions that the 8 bits changed.
#
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert in_float.verdict == in_int8.verdict == "ok"
assert auc > 0.9
assert np.array_equal(alarms["float32 file"], alarms["Keras"])
assert np.mean(alarms["int8 file"] == alarms["Keras"]) > 0.95
assert roc_auc_score(unusual, file_errors) > auc - 0.02

# %% [markdown]
# Next: [a network that says how sure it is](../../docs/tutorials/mean_and_sigma.md). For an autoencoder that was
# trained with another activation and is changed afterwards, see
# [examples/anomaly_autoencoder.py](../../examples/anomaly_autoencoder.py).
