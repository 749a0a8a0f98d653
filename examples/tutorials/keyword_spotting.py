# %% [markdown]
# # Keyword spotting with your own sounds
#
# A device should react to a few sounds: a whistle, a double knock, a spoken word. You have a folder of WAV files for
# each. This page goes the whole way from the files to an int8 model that a microcontroller can run.
#
# **Why features come first.** A second of sound is thousands of samples. A small network learns faster from a picture
# of the sound: which frequencies are loud at which time. The firmware has to compute the same picture, so it should be
# made of a few plain steps. Here it takes numpy and twenty lines, and no library for sound.
#
# This page is the script [examples/tutorials/keyword_spotting.py](../../examples/tutorials/keyword_spotting.py), which
# VS Code and Jupyter open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a
# minute.

# %%
import wave
from pathlib import Path

import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from matplotlib import pyplot as plt

import sqp_keras  # from now on Keras knows "squareplus"
from sqp_tflite import check, export

keras.utils.set_random_seed(0)
random = np.random.default_rng(0)

# %% [markdown]
# ## The sounds
#
# We make our own, so that the page runs anywhere: four sounds of half a second, with a pitch, a speed, a loudness and
# a noise that change each time. They are written as WAV files, one folder per sound.
#
# **To use your own recordings**, put them in such folders, set `RATE`, `LENGTH` (in samples) and `SOUNDS`, and leave
# out the last two lines of this cell. They must have one channel and 16 bits, and all of them the same rate and
# length. Leave out the part about noise, too: it makes up more sounds.

# %%
RATE, LENGTH = 8000, 4000
SOUNDS = ("rising", "falling", "two beeps", "noise only")


def made_up(sound, noise=None):
    """Returns a sound with random properties, samples from -1 to 1."""
    seconds = np.arange(LENGTH) / RATE
    place = (seconds - random.uniform(0.0, 0.15)) / random.uniform(0.25, 0.35)  # 0 to 1 while it sounds
    low, high = random.uniform(400, 700), random.uniform(1400, 2200)
    pitch = {"rising": low + (high - low) * place, "falling": high - (high - low) * place}.get(sound, (low + high) / 2)
    loud = (place > 0) & (place < 1)
    if sound == "two beeps":
        loud &= (place < 0.35) | (place > 0.65)
    loudness = 0.0 if sound == "noise only" else random.uniform(0.1, 0.4)
    tone = loud * loudness * np.sin(2 * np.pi * np.cumsum(np.broadcast_to(pitch, LENGTH)) / RATE)
    return tone + random.normal(0, noise or random.uniform(0.01, 0.08), LENGTH)


def write(path, samples):
    """Writes samples as a WAV file of 16 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


for sound in SOUNDS:
    for number in range(120):
        write(Path("sounds", sound, f"{number:03}.wav"), made_up(sound))

# %% [markdown]
# ## From sound to picture
#
# - Cut the sound into frames of 32 ms, one every 16 ms, and fade each in and out.
# - A Fourier transform says how loud each frequency is in a frame.
# - Add neighbouring frequencies up in 16 bands. The bands are narrow for low sounds and wide for high ones, as in the
#   ear; this is the *mel* scale.
# - Take the logarithm: ears and networks care about ratios.
#
# The logarithm is part of the features, which your firmware computes outside of the model. The model needs none.

# %%
FRAME, HOP, BANDS = 256, 128, 16


def bands():
    """Returns how much of each frequency goes into each band, shape (frequencies, bands)."""
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    mel = 2595 * np.log10(1 + frequencies / 700)
    corners = np.linspace(2595 * np.log10(1 + 100 / 700), mel[-1], BANDS + 2)
    rise = (mel[:, None] - corners[:-2]) / np.diff(corners)[:-1]
    fall = (corners[2:] - mel[:, None]) / np.diff(corners)[1:]
    return np.maximum(0, np.minimum(rise, fall))


WINDOW, WEIGHTS = np.hanning(FRAME), bands()


def features(samples):
    """Returns the picture of a sound, shape (frames, bands, 1)."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
    power = np.abs(np.fft.rfft(frames * WINDOW)) ** 2
    return np.log(power @ WEIGHTS + 1e-3).astype("float32")[..., np.newaxis]


def read(path):
    """Returns the samples of a WAV file, from -1 to 1."""
    with wave.open(str(path), "rb") as file:
        assert file.getnchannels() == 1 and file.getsampwidth() == 2 and file.getframerate() == RATE
        return np.frombuffer(file.readframes(LENGTH), "<i2") / 32768


files = sorted(Path("sounds").glob("*/*.wav"))
x = np.stack([features(read(path)) for path in files])
y = np.array([SOUNDS.index(path.parent.name) for path in files])
print(f"{len(files)} files, each a picture of {x.shape[1]} frames by {x.shape[2]} bands")

# %%
figure, axes = plt.subplots(1, 4, figsize=(8, 2.3), layout="constrained", sharey=True)
figure.suptitle("One sound of each kind, as the network sees it")
for kind, axis in enumerate(axes):
    axis.imshow(x[y == kind][0, ..., 0].T, origin="lower", aspect="auto", cmap="magma")
    axis.set(title=SOUNDS[kind], xlabel="frame")
    axis.grid(False)
axes[0].set_ylabel("band")
plt.show()

# %% [markdown]
# ## Train
#
# A *depthwise separable* network: each of its steps first looks along time and frequency in each channel by itself,
# and then mixes the channels. It does most of the work of a full convolution with a fraction of the multiplications.
# The features get mean 0 and spread 1; the two numbers go into the firmware, too.

# %%
order = random.permutation(len(x))
x, y = x[order], y[order]
mean, spread = x[:360].mean(), x[:360].std()
x = (x - mean) / spread
x, x_test, y, y_test = x[:360], x[360:], y[:360], y[360:]
print(f"firmware: feature = (log(power) - {mean:.3f}) / {spread:.3f}")

model = keras.Sequential([keras.Input(x.shape[1:], name="sound"), layers.Conv2D(16, 5, strides=2, name="first")])
for stage in ("second", "third"):
    model.add(layers.BatchNormalization(momentum=0.9))
    model.add(layers.Activation("squareplus"))
    model.add(layers.DepthwiseConv2D(3, padding="same", name=f"{stage}_apart"))
    model.add(layers.Conv2D(16, 1, name=f"{stage}_mix"))
model.add(layers.BatchNormalization(momentum=0.9))
model.add(layers.Activation("squareplus"))
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(len(SOUNDS), name="which"))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss)
model.fit(x, y, batch_size=24, epochs=12, verbose=0)
keras_answers = np.argmax(model.predict(x_test, verbose=0), axis=-1)
print(f"Keras: {np.mean(keras_answers == y_test):.1%} of {len(x_test)} test sounds")

# %% [markdown]
# ## Export in int8
#
# `lowering="table"` makes each activation a table of 256 entries. This is the fastest form on most chips. The training
# sounds give the ranges; the test sounds, which the file has not seen, say how good it is.

# %%
report = export(model, "sounds.tflite", quantize="int8", lowering="table", data={"sound": x, "y": y}).report
row = check(model, "sounds.tflite", {"sound": x_test, "y": y_test})[0]
print(f"{report.verdict}: {report.size_bytes:,} bytes, arena {report.memory.arena_bytes:,} bytes of RAM at most")
print(f"{row.runtime}: accuracy {row.metric_after:.1%}, Keras {row.metric_before:.1%}")

# %% [markdown]
# ## How much noise does it stand?
#
# Now we go from the sound to the answer as a device does, and make the noise louder and louder. If the int8 file were
# weaker than Keras, it would show here first.

# %%
interpreter = Interpreter("sounds.tflite")
interpreter.allocate_tensors()
entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]


def heard(picture):
    """Returns which sound the int8 file hears."""
    scale, zero = entry["quantization"]
    codes = np.clip(np.round(picture / scale) + zero, -128, 127).astype("int8")
    interpreter.set_tensor(entry["index"], codes[np.newaxis])
    interpreter.invoke()
    return np.argmax(interpreter.get_tensor(exit_["index"]))


noises, right = (0.02, 0.05, 0.1, 0.15, 0.2), {"Keras": [], "int8 file": []}
truth = np.repeat(np.arange(4), 30)
for noise in noises:
    sounds = np.stack([features(made_up(SOUNDS[kind], noise)) for kind in truth])
    sounds = ((sounds - mean) / spread).astype("float32")
    right["Keras"].append(np.mean(np.argmax(model.predict(sounds, verbose=0), axis=-1) == truth))
    answers = np.array([heard(picture) for picture in sounds])
    right["int8 file"].append(np.mean(answers == truth))
for name, shares in right.items():
    print(f"{name:9}", *(f"{share:6.1%}" for share in shares))

# %%
figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
figure.suptitle("Sounds that are recognised, at more and more noise")
for (name, shares), style, colour in zip(right.items(), ("o-", "s--"), ("#2c6fae", "#c1432e"), strict=True):
    axis.semilogx(noises, shares, style, color=colour, label=name)
axis.axvspan(0.01, 0.08, color="#dddddd", label="noise in training")
axis.set(xlabel="noise", ylabel="share", ylim=(0, 1.05), xticks=noises, xticklabels=noises)
axis.minorticks_off()
axis.legend()
plt.show()

# %% [markdown]
# Both curves fall together. In noise that is much louder than any in the training the network gives the same answer to
# everything. The remedy is louder noise in the training sounds, not another type of numbers.
#
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert report.verdict == "ok" and row.status == "ok"
assert row.metric_before > 0.95
assert row.metric_after > row.metric_before - 0.03
assert np.allclose(right["Keras"], right["int8 file"], atol=0.1)
assert right["int8 file"][0] > 0.9 > right["int8 file"][-1]
assert np.bincount(answers).max() > 0.9 * len(answers)  # in the loudest noise

# %% [markdown]
# Next: [a sound as a stream](../../docs/tutorials/stream.md), one step at a time, or [the file on a
# board](../../docs/five-minutes.md).
