"""Networks of kinds that people put on devices and that `tools/zoo.py` lacks: our own, small, with seeded weights.

`build("unet_1d")` returns one. All take float32 inputs but `token_classifier`, which takes int32 tokens.
"""

from collections.abc import Callable

import keras

L = keras.layers


def build(name: str, seed: int = 0) -> keras.Model:
    """Returns the network of that name in `NETS`, untrained."""
    keras.utils.set_random_seed(seed)
    return NETS[name]()


def gated_convolutions() -> keras.Model:
    """Causal dilated convolutions with tanh and sigmoid gates, residuals and skips (WaveNet's kind)."""
    i = keras.Input((64, 4), name="wave")
    x, skips = L.Conv1D(16, 1)(i), []
    for dilation in (1, 2, 4, 8):
        kinds = {"padding": "causal", "dilation_rate": dilation}
        gate = L.Conv1D(16, 2, activation="sigmoid", **kinds)(x)
        x_gated = L.Multiply()([L.Conv1D(16, 2, activation="tanh", **kinds)(x), gate])
        skips.append(L.Conv1D(16, 1)(x_gated))
        x = L.Add()([x, L.Conv1D(16, 1)(x_gated)])
    x = L.Conv1D(16, 1, activation="relu")(L.Activation("relu")(L.Add()(skips)))
    return keras.Model(i, L.Dense(5, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def mixed_kernels() -> keras.Model:
    """Depthwise convolutions of several sizes on uneven parts of the channels (MixConv), with SiLU and a gate."""
    i = keras.Input((32, 32, 3), name="image")
    x = L.Activation("silu")(L.BatchNormalization()(L.Conv2D(20, 3, strides=2, padding="same")(i)))
    for strides in (1, 2):
        parts = keras.ops.split(x, [8, 14], axis=-1)
        mixed = [
            L.DepthwiseConv2D(size, strides=strides, padding="same")(part)
            for size, part in zip((3, 5, 7), parts, strict=True)
        ]
        y = L.Activation("silu")(L.BatchNormalization()(L.Concatenate()(mixed)))
        y = _gate(y, 5)
        y = L.BatchNormalization()(L.Conv2D(20, 1)(y))
        x = y if strides > 1 else L.Add()([x, y])
    return keras.Model(i, L.Dense(6, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def _gate(x: keras.KerasTensor, units: int) -> keras.KerasTensor:
    """Squeeze and excitation."""
    pooled = L.GlobalAveragePooling2D(keepdims=True)(x)
    scale = L.Conv2D(x.shape[-1], 1, activation="sigmoid")(L.Conv2D(units, 1, activation="silu")(pooled))
    return L.Multiply()([x, scale])


def mixture_density() -> keras.Model:
    """One step of a recurrent net with a mixture of densities: weights, means, sigma as ELU + 1; states in and out."""
    i = keras.Input((1, 3), name="pen")
    states = [keras.Input((24,), name="h_in"), keras.Input((24,), name="c_in")]
    out, h, c = L.LSTM(24, return_state=True, name="lstm")(i, initial_state=states)
    sigma = L.Rescaling(1.0, 1.0, name="sigma")(L.Dense(4, activation="elu")(out))
    weights = L.Dense(4, activation="softmax", name="weights")(out)
    means = L.Dense(4, name="means")(out)
    copies = [L.Identity(name=name)(state) for name, state in (("h_out", h), ("c_out", c))]
    return keras.Model([i, *states], [weights, means, sigma, *copies])


def residual_recurrent() -> keras.Model:
    """A recurrent layer around which the only channel goes on (guitar amplifiers)."""
    i = keras.Input((16, 1), name="audio")
    x = L.Dense(1)(L.LSTM(12, return_sequences=True)(i))
    return keras.Model(i, L.Add()([x, i]))


def convolutional_auto_encoder() -> keras.Model:
    """Down by strides, up by repetition; ELU inside, a sigmoid at the end."""
    i = keras.Input((32, 32, 1), name="image")
    x = i
    for filters in (8, 12):
        x = L.Conv2D(filters, 3, strides=2, padding="same", activation="elu")(x)
    for filters in (12, 8):
        x = L.Conv2D(filters, 3, padding="same", activation="elu")(L.UpSampling2D()(x))
    return keras.Model(i, L.Conv2D(1, 3, padding="same", activation="sigmoid")(x))


def token_classifier() -> keras.Model:
    """Embedded tokens, a convolution over them, the largest of each channel."""
    i = keras.Input((24,), dtype="int32", name="tokens")
    x = L.Conv1D(24, 3, activation="gelu")(L.Embedding(200, 16)(i))
    return keras.Model(i, L.Dense(4, activation="softmax")(L.GlobalMaxPooling1D()(x)))


def _attention_block(x: keras.KerasTensor, heads: int, size: int) -> keras.KerasTensor:
    """Attention and a dense pair, each behind a normalisation and with a residual."""
    y = L.LayerNormalization(epsilon=1e-5)(x)
    x = L.Add()([x, L.MultiHeadAttention(heads, size // heads)(y, y)])
    y = L.Dense(2 * size, activation="gelu")(L.LayerNormalization(epsilon=1e-5)(x))
    return L.Add()([x, L.Dense(size)(y)])


def mobile_vit() -> keras.Model:
    """Convolutions, then attention over the places of the image, then convolutions (MobileViT's kind)."""
    i = keras.Input((32, 32, 3), name="image")
    x = i
    for filters in (12, 16):
        x = L.Activation("silu")(L.BatchNormalization()(L.Conv2D(filters, 3, strides=2, padding="same")(x)))
    tokens = L.Reshape((64, 16))(x)
    tokens = _attention_block(tokens, 2, 16)
    y = L.Reshape((8, 8, 16))(tokens)
    x = L.Conv2D(24, 3, padding="same", activation="silu")(L.Concatenate()([x, y]))
    return keras.Model(i, L.Dense(6, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def keyword_transformer() -> keras.Model:
    """Frames of features as tokens, two blocks of attention with GELU."""
    i = keras.Input((25, 16), name="frames")
    x = L.Dense(24)(i)
    for _ in range(2):
        x = _attention_block(x, 3, 24)
    return keras.Model(i, L.Dense(8, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def unet_1d() -> keras.Model:
    """Down and up over time with skips; a probability for each sample."""
    i = keras.Input((64, 2), name="signal")
    a = L.Conv1D(8, 5, padding="same", activation="silu")(i)
    b = L.Conv1D(12, 5, padding="same", activation="silu")(L.MaxPooling1D(2)(a))
    c = L.Conv1D(16, 5, padding="same", activation="silu")(L.MaxPooling1D(2)(b))
    y = L.Conv1D(12, 3, padding="same", activation="silu")(L.Concatenate()([L.UpSampling1D(2)(c), b]))
    y = L.Conv1D(8, 3, padding="same", activation="silu")(L.Concatenate()([L.UpSampling1D(2)(y), a]))
    return keras.Model(i, L.Conv1D(1, 1, activation="sigmoid")(y))


def convnext() -> keras.Model:
    """Depthwise 7x7, layer normalisation and a wide pair of GELU, with a learnt scale (ConvNeXt's kind)."""
    i = keras.Input((32, 32, 3), name="image")
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(16, 4, strides=4)(i))
    for _ in range(2):
        y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(7, padding="same")(x))
        x = L.Add()([x, L.Dense(16)(L.Dense(48, activation="gelu")(y))])
    return keras.Model(i, L.Dense(6, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def efficient_v2() -> keras.Model:
    """Fused and separate inverted bottlenecks with SiLU and gates (EfficientNetV2's kind)."""
    i = keras.Input((32, 32, 3), name="image")
    x = L.Activation("silu")(L.BatchNormalization()(L.Conv2D(12, 3, strides=2, padding="same")(i)))
    y = L.Activation("silu")(L.BatchNormalization()(L.Conv2D(36, 3, padding="same")(x)))
    x = L.Add()([x, L.BatchNormalization()(L.Conv2D(12, 1)(y))])
    y = L.Activation("silu")(L.BatchNormalization()(L.Conv2D(48, 1)(x)))
    y = L.Activation("silu")(L.BatchNormalization()(L.DepthwiseConv2D(3, strides=2, padding="same")(y)))
    x = L.BatchNormalization()(L.Conv2D(20, 1)(_gate(y, 6)))
    return keras.Model(i, L.Dense(6, activation="softmax")(L.GlobalAveragePooling2D()(x)))


NETS: dict[str, Callable[[], keras.Model]] = {
    net.__name__: net
    for net in (
        gated_convolutions,
        mixed_kernels,
        mixture_density,
        residual_recurrent,
        convolutional_auto_encoder,
        token_classifier,
        mobile_vit,
        keyword_transformer,
        unet_1d,
        convnext,
        efficient_v2,
    )
}
"""Every network by its name."""
