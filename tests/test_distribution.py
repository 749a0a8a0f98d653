"""The layer with a learnt b trains to the same losses on several devices and workers as on one device."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

TRAIN = """
import contextlib, json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
if sys.argv[1] == "workers":
    strategies = [tf.distribute.MultiWorkerMirroredStrategy()]
else:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategies = [tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), None]
import keras, numpy as np
from sqp_keras import Squareplus

def train(strategy):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2, (64, 4)).astype(np.float32)
    y = np.abs(x[:, :1])
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential([
            keras.Input((4,)), keras.layers.Dense(8), Squareplus(b=2.0, learn_b="channel"),
            keras.layers.Dense(4, activation=Squareplus(learn_b="layer")), keras.layers.Dense(1),
        ])
        model(x[:1])  # Creates the weights of layers inside layers.
        model.compile(keras.optimizers.SGD(0.02), "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    strategy = strategy or tf.distribute.get_strategy()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = strategy.experimental_distribute_dataset(data.with_options(options))

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x) - y) ** 2) / 16
        model.optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=batch), axis=None)

    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    losses = [float(step(batch)) for _ in range(5) for batch in data]
    return losses, model.layers[1].b.numpy().tolist(), strategy.num_replicas_in_sync

print("RESULT", json.dumps([train(strategy) for strategy in strategies]))
"""


FIT = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras, numpy as np
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, sys.argv[1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
try:
    model.fit(np.zeros((8, 4), "float32"), np.zeros((8, 1), "float32"), verbose=0)
    print('RESULT "fits"')
except ValueError as error:
    print('RESULT "refused"' if "PerReplica" in str(error) else error)
"""


def start(kind, program=TRAIN, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program, kind],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(*processes):
    found = []
    try:
        for process in processes:
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            found.append(json.loads(output.split("RESULT", 1)[1]))
    finally:
        for process in processes:
            process.kill()
    return found


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def same(trained, single):
    """Asserts that two replicas gave the losses and the b of one device, and that b has moved."""
    losses, b, replicas = trained
    assert replicas == 2
    # The same sums of float32 in another order, over twenty steps.
    np.testing.assert_allclose(losses, single[0], rtol=1e-4)
    np.testing.assert_allclose(b, single[1], rtol=1e-4)
    assert single[0][-1] < single[0][0]
    assert np.abs(np.array(single[1]) - 2.0).max() > 1e-3


@pytest.mark.large
def test_two_devices_train_as_one():
    ((mirrored, single),) = results(start("devices"))
    same(mirrored, single)


def workers(*arguments):
    """Returns two workers of one cluster, started."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)]
    return [start(*arguments, TF_CONFIG=json.dumps(task)) for task in tasks]


@pytest.mark.large
def test_keras_itself_cannot_fit_with_two_workers():
    # When this fails, the limit in docs/numerics.md is gone.
    assert results(*workers("relu", FIT)) == ["refused", "refused"]


@pytest.mark.large
def test_two_workers_train_as_one():
    *found, (_, single) = results(*workers("workers"), start("devices"))
    for (trained,) in found:
        same(trained, single)
