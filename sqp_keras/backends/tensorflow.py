"""Squareplus on TensorFlow, with a gradient that keeps only the output.

The derivative is written in terms of the tensor that the caller receives, not of the one computed inside, so that
differentiating it again goes through the same rule: every order, direction and mode follows from the two rules here.
"""

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from sqp_keras import private
from sqp_keras.activation import formulas

record = private.record()

_count = itertools.count()


class _Asked(NamedTuple):
    """Why a rule is called.

    Attributes:
        saving: For a SavedModel.
        linear: By an accumulator that transposes another operation's rule, which is no further derivative.
    """

    saving: bool
    linear: bool


class _Recorded(threading.local):
    """The operations that are being recorded on this thread, outermost first; accumulators ask meanwhile."""

    def __init__(self) -> None:
        self.ops: list[list[Any]] = []


_recorded = _Recorded()

_TOO_DEEP = (
    "In eager mode a fourth derivative of squareplus has at most one forward direction among its two outermost ones. "
    "Received: two outer tf.autodiff.ForwardAccumulators around two more directions. Put the whole nesting into a "
    "tf.function, or make the outermost one a tf.GradientTape."
)


@tf.autograph.experimental.do_not_convert
def squareplus(x: Any, c: Any) -> Any:
    """Returns squareplus of the floating-point tensor `x` for c = b/4, a float > 0 or a tensor that broadcasts."""
    dtype, wide, learnt = x.dtype.name, formulas.compute_dtype(x.dtype.name), tf.is_tensor(c)
    c = _hidden(c) if learnt else c

    def forward(x: Any, c: Any = c) -> Any:
        return _compute("value", (dtype, wide), dtype, x, c)

    def backward(dy: Any, y: Any, asked: _Asked, _: Any, c: Any = c) -> Any:
        dy, y = tf.cast(dy, wide), tf.cast(y, wide)
        dx = dy * formulas.slope(tf, y, _fixed(c, wide), wide) if asked.saving else _slope_times(dy, y, c, 1)
        dx = tf.cast(dx, dtype)
        return (dx, _sum_to(dy * formulas.value_by_c(tf, y, c, wide), c)) if learnt else dx

    return _with_gradient(forward, backward, *((x, c) if learnt else (x,)))


@tf.autograph.experimental.do_not_convert
def rectifier(x: Any) -> Any:
    """Returns relu of `x`, the limit b = 0, with the derivative 1/2 at 0 that squareplus has for every b."""

    def backward(dy: Any, _: Any, asked: _Asked, x: Any) -> Any:
        # The output cannot tell 0 from a negative input, so here the input is kept.
        return dy * (tf.sign(x) * 0.5 + 0.5)

    return _with_gradient(tf.nn.relu, backward, x, output=False)


def _slope_times(dy: Any, y: Any, c: Any, order: int) -> Any:
    """Returns dy * dy/dx with its own rule, so that its derivatives are accurate on both sides of 0.

    `order` counts the derivatives that led here. TensorFlow would lose part of the fourth if two accumulators follow.
    """
    wide, learnt = y.dtype.name, tf.is_tensor(c)
    if order > 1 and tf.executing_eagerly() and private.accumulators([dy, y]) > 1:
        raise NotImplementedError(_TOO_DEEP)

    def forward(dy: Any, y: Any, c: Any = c) -> Any:
        return _compute("slope_times", (wide, wide, wide), wide, dy, y, c)

    def backward(u: Any, _: Any, asked: _Asked, dy: Any, y: Any, c: Any = c) -> Any:
        both = u * dy
        if asked.saving:
            by_dy = u * formulas.slope(tf, y, _fixed(c, wide), wide)
        else:
            by_dy = _slope_times(u, y, c, order if asked.linear else order + 1)
        by_y = both * formulas.slope_by_y(tf, y, _fixed(c, wide), wide)
        return (by_dy, by_y, _sum_to(both * formulas.slope_by_c(tf, y, c, wide), c)) if learnt else (by_dy, by_y)

    return _with_gradient(forward, backward, *((dy, y, c) if learnt else (dy, y)), output=False)


def _with_gradient(forward: Callable[..., Any], backward: Callable[..., Any], *args: Any, output: bool = True) -> Any:
    """Returns forward(*args), differentiated by backward(dy, y, asked, *args) where y is the tensor returned.

    If `output` is False, the rule gets None instead of y; if it is True, it must not use the first of `args`.

    While a SavedModel is written (`saving`), TensorFlow stores the rules of the model's own operations but not those
    of operations inside a rule. So the backward pass is then made of plain operations.
    """
    if record and tf.executing_eagerly() and not record.could_possibly_record():
        return forward(*args)
    returned: list[Any] = []
    pending = [args]
    kept = (None, *args[1:]) if output else args

    def rule(dy: Any, saving: bool = False, op: Any = None) -> tuple[Any, ...]:
        # A forward-mode accumulator asks while the operation is still being recorded, before there is a tensor to
        # return. It gets its own; the accumulator is paused meanwhile, so this ends.
        y, given = None, kept
        if op is not None:
            # A function's derivative is a graph of its own, where the tensors of this one have other names.
            y, given = op.outputs[0], tuple(op.inputs)[1:]
        elif output:
            y = returned[0] if returned else _with_gradient(forward, backward, *pending[0])
        # A plain graph would compute what needs only y as soon as y is there, in the forward pass, and keep both.
        with tf.control_dependencies([dy]):
            asked = _Asked(saving, bool(_recorded.ops) and _recorded.ops[-1] is not returned)
            return tuple(tf.nest.flatten(backward(dy, y, asked, *given)))

    _recorded.ops.append(returned)
    try:
        returned.append(_record(forward, rule, args) if record else _public_record(forward, rule, args))
    finally:
        _recorded.ops.pop()
    pending.clear()  # Otherwise the rule would keep the inputs alive until the backward pass.
    return returned[0]


def _record(forward: Callable[..., Any], rule: Callable[..., tuple[Any, ...]], args: tuple[Any, ...]) -> Any:
    """Returns forward(*args), recorded with `rule` on every tape and accumulator, and in the graph that is built."""
    with record.stop_recording():
        y = forward(*args)
        if tf.executing_eagerly():
            outputs, inputs = [y], list(args)
        else:
            # As in `tf.custom_gradient`, the tensors pass through one operation whose gradient is overridden, so that
            # `tf.gradients`, functions and SavedModels find the rule. Unlike there, the operation itself is not
            # recorded, so forward mode uses the rule too.
            name, inputs = f"SquareplusRule-{next(_count)}", [y, *args]
            # A SavedModel's writer traces the rule without an operation.
            tf.RegisterGradient(name)(lambda op, dy, *unused: [None, *rule(dy, op is None, op)])
            with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
                outputs = tf.identity_n(inputs)
    skipped = [None] * (len(inputs) - len(args))
    record.record_operation("Squareplus", outputs, inputs, lambda dy, *unused: [*skipped, *rule(dy)])
    return outputs[0]


def _public_record(forward: Callable[..., Any], rule: Callable[..., tuple[Any, ...]], args: tuple[Any, ...]) -> Any:
    """As `_record`, with public functions only: without forward mode inside `tf.function`."""

    @tf.custom_gradient
    def operation(*args: Any) -> tuple[Any, Callable[[Any], Any]]:
        return forward(*(tf.stop_gradient(arg) for arg in args)), lambda dy: rule(dy)

    return operation(*args)


def _compute(formula: str, dtypes: tuple[str, ...], result: str, *args: Any) -> Any:
    """Returns the formula of `args`; in eager mode as one call, since ten would cost ten times the overhead."""
    *tensors, c = args
    tensors.append(_fixed(c, dtypes[-1]))
    if not tf.executing_eagerly():
        return _FORMULAS[formula](result, *tensors)
    function = _function(formula, dtypes, result)
    # On the calling thread: a chain does not run in parallel, and waking threads costs more than a small tensor.
    return tf.raw_ops.PartitionedCall(
        args=tensors, Tout=[result], f=function, executor_type="SINGLE_THREADED_EXECUTOR"
    )[0]


def _fixed(c: Any, dtype: str) -> Any:
    """Returns `c` as a tensor whose value the graph optimiser does not know.

    Otherwise it turns 1/h into RECIPROCAL, which is off by thousands of units in the last place for large h.
    """
    if tf.is_tensor(c):
        return c
    if tf.executing_eagerly():
        return _constant(c, dtype)
    return tf.raw_ops.PlaceholderWithDefault(input=tf.constant(c, dtype), shape=[])


def _hidden(c: Any) -> Any:
    """Returns the tensor `c` of a graph, hidden as in `_fixed` if the optimiser would compute it in advance."""
    if tf.executing_eagerly():
        return c
    found: set[Any] = set()
    waiting = [c.op]
    while waiting:
        op = waiting.pop()
        # The second is already hidden, or the variable of a vectorised loop, whose uses must stay as they are.
        if op.type == "PlaceholderWithDefault" or (not op.inputs and op.type != "Const"):
            return c
        new = {tensor.op for tensor in op.inputs} - found
        found |= new
        waiting.extend(new)
    return tf.raw_ops.PlaceholderWithDefault(input=c, shape=c.shape)


@functools.lru_cache(maxsize=32)
def _constant(c: float, dtype: str) -> Any:
    return tf.constant(c, dtype)


@functools.cache
def _function(formula: str, dtypes: tuple[str, ...], result: str) -> Any:
    """Returns a graph of the formula for tensors of any shape."""
    signature = [tf.TensorSpec(None, dtype) for dtype in dtypes]
    traced = tf.function(functools.partial(_FORMULAS[formula], result), input_signature=signature, autograph=False)
    return traced.get_concrete_function()


def _value(dtype: str, x: Any, c: Any) -> Any:
    wide = formulas.compute_dtype(dtype)
    return tf.cast(formulas.value(tf, tf.cast(x, wide), c, wide, bounded=dtype == "float16"), dtype)


def _scaled_slope(_: str, dy: Any, y: Any, c: Any) -> Any:
    return dy * formulas.slope(tf, y, c, y.dtype.name)


_FORMULAS: dict[str, Callable[..., Any]] = {"value": _value, "slope_times": _scaled_slope}


def _sum_to(value: Any, like: Any) -> Any:
    """Returns `value` summed over the axes along which `like` was broadcast."""
    if value.shape.is_fully_defined() and value.shape == like.shape:
        return value
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(value))
    return tf.reshape(tf.reduce_sum(value, axes), tf.shape(like))
