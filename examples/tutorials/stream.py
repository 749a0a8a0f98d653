# %% [markdown]
# # A stream, one step at a time
#
# A sensor gives a number every few milliseconds and never stops. A recurrent network was trained on whole sequences,
# but the device cannot wait for a whole sequence. It has to take one number, give one answer, and remember something
# for the next step.
#
# **What `step=True` does.** It makes a file that computes one step. What the network remembers, its *states*, become
# inputs and outputs of that file. The device copies the new states back in at the next step. `export` proves that this
# gives what Keras gives for the whole sequence.
#
# This page is the script [examples/tutorials/stream.py](../../examples/tutorials/stream.py), which VS Code and Jupyter
# open as a notebook. It needs `pip install 'sqp-keras[demo,plots]'` and runs in well under a minute.

# %%
import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from matplotlib import pyplot as plt

from sqp_tflite import export

keras.utils.set_random_seed(0)
random = np.random.default_rng(0)

# %% [markdown]
# ## The data
#
# A slow movement, measured by a noisy sensor: a swing whose speed and height change, plus noise. The network should
# give the movement without the noise. We make 300 sequences of 48 steps, and a test sequence that is five times as
# long.


# %%
def movement(sequences, steps):
    """Returns noisy and clean sequences, both of shape (sequences, steps, 1)."""
    time = np.arange(steps)
    speed, height, begin = random.uniform(0.08, 0.25, (3, sequences, 1)) * np.array([1.0, 5.0, 25.0]).reshape(3, 1, 1)
    drift = np.sin(0.3 * speed * time + 2 * begin)
    clean = height * np.sin(speed * time + begin) + 0.4 * drift
    noisy = clean + random.normal(0, 0.3, clean.shape)
    return noisy[..., np.newaxis].astype("float32"), clean[..., np.newaxis].astype("float32")


noisy, clean = movement(300, 48)
long_noisy, long_clean = movement(1, 240)

# %% [markdown]
# ## Train
#
# A convolution looks at the last five samples, and never ahead: `padding="causal"`. A GRU remembers what came before.
# Both have a state, the convolution its last samples and the GRU its memory. The GRU is Keras's own, with sigmoid and
# tanh.

# %%
model = keras.Sequential(
    [
        keras.Input((48, 1), name="sample"),
        layers.Conv1D(8, 5, padding="causal", activation="relu", name="nearby"),
        layers.GRU(12, return_sequences=True, name="memory"),
        layers.Dense(1, name="movement"),
    ],
    name="smoother",
)
model.compile(keras.optimizers.Adam(0.01), "mse")
model.fit(noisy, clean, batch_size=30, epochs=12, verbose=0)

# %% [markdown]
# ## Export one step
#
# `replace="accurate"` writes the sigmoid and tanh of the GRU as sums of square roots, since the chip has no `exp`. The
# data are whole sequences, so that the report can compare each step with Keras.

# %%
report = export(model, "smoother.tflite", step=True, replace="accurate", data={"sample": noisy[:20]}).report
print(f"{report.verdict}: {report.size_bytes:,} bytes, arena {report.memory.arena_bytes:,} bytes of RAM at most")
for row in (*report.inputs, *report.outputs):
    print(f"  {row.name} {row.shape}")
for pair in report.states:
    print(f"  {pair}")

# %% [markdown]
# ## Run it as a device does
#
# This is all that firmware has to do: set the sample and the states, run, take the answer and the new states. At the
# beginning the states are zero. `report.states` says which output goes back into which input.

# %%
interpreter = Interpreter("smoother.tflite")
interpreter.allocate_tensors()
entries, exits = interpreter.get_input_details(), interpreter.get_output_details()
pairs = [(exits[pair.output_index]["index"], entries[pair.input_index]["index"]) for pair in report.states]
state_entries = {entry for _, entry in pairs}
(sample_entry,) = (entry["index"] for entry in entries if entry["index"] not in state_entries)
(answer_exit,) = (exit_["index"] for exit_ in exits if exit_["index"] not in {made for made, _ in pairs})


def stream(samples):
    """Returns the file's answers to samples that come one by one, from the beginning of a sequence."""
    states = {
        entry["index"]: np.zeros(entry["shape"], "float32") for entry in entries if entry["index"] in state_entries
    }
    answers = []
    for sample in samples:
        interpreter.set_tensor(sample_entry, sample.reshape(1, 1))
        for entry, state in states.items():
            interpreter.set_tensor(entry, state)
        interpreter.invoke()
        answers.append(interpreter.get_tensor(answer_exit).item())
        states = {entry: interpreter.get_tensor(made) for made, entry in pairs}
    return np.array(answers)


streamed = stream(long_noisy[0])

# %% [markdown]
# ## Compare with Keras
#
# Keras gets the whole long sequence at once. For that we build the same model for 240 steps and give it the same
# weights.

# %%
longer = keras.models.clone_model(model, input_tensors=keras.Input((240, 1), name="sample"))
longer.set_weights(model.get_weights())
whole = longer.predict(long_noisy, verbose=0)[0, :, 0]
difference = np.abs(streamed - whole)
noise, left = (np.std(values - long_clean[0, :, 0]) for values in (long_noisy[0, :, 0], streamed))
print(f"error of the sensor {noise:.2f}, of the file {left:.2f}")
print(f"largest difference to Keras over 240 steps: {difference.max():.1e}")
print(f"the first 120 steps {difference[:120].max():.1e}, the last 120 {difference[120:].max():.1e}")

# %% [markdown]
# The last line matters most. An error that is fed back could grow with every step. Here it does not, although the file
# runs five times as long as any sequence of the training.

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4.2), sharex=True, height_ratios=(3, 1), layout="constrained")
figure.suptitle("The sensor, Keras over the whole sequence, and the file step by step")
above.plot(long_noisy[0, :, 0], ".", color="#bbbbbb", label="sensor")
above.plot(whole, color="#2c6fae", linewidth=3, alpha=0.5, label="Keras, whole sequence")
above.plot(streamed, color="#c1432e", linewidth=1, label="file, step by step")
above.legend(ncols=3, loc="upper right")
below.semilogy(difference + 1e-9, color="#222222")
below.set(xlabel="step", ylabel="difference")
plt.show()

# %% [markdown]
# ## What you have seen
#
# These lines fail if anything on this page stops being true.

# %%
assert report.verdict == "ok"
assert {pair.input for pair in report.states} == {"nearby/past", "memory/h"}
assert not {"LOGISTIC", "TANH", "EXP"} & {row.op for row in report.ops}
assert left < 0.6 * noise
assert difference.max() < 0.01
assert difference[120:].max() < 3 * difference[:120].max()

# %% [markdown]
# Next: [what else can be a stream](../../docs/sequences.md), and how the states work in int8.
