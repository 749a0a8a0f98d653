"""Squareplus on PyTorch, with a derivative that keeps only the output.

Each derivative is written in terms of the tensor that the caller receives, so that differentiating it again goes
through the same rules, in reverse and in forward mode, and under `torch.func`. Forward over forward is
wrong: PyTorch loses the outer tangent of every `torch.autograd.Function`.
"""

from typing import Any

import torch

from sqp_keras.activation import formulas


class _Namespace:
    """Torch's functions under the names that the formulas use; a bound may be a number, as in NumPy."""

    abs, sqrt = torch.abs, torch.sqrt

    @staticmethod
    def minimum(x: Any, bound: Any) -> Any:
        return torch.minimum(x, bound) if torch.is_tensor(bound) else torch.clamp(x, max=bound)

    @staticmethod
    def maximum(x: Any, bound: Any) -> Any:
        return torch.maximum(x, bound) if torch.is_tensor(bound) else torch.clamp(x, min=bound)


def squareplus(x: Any, c: Any) -> Any:
    """Returns squareplus of the floating-point tensor `x` for c = b/4, a float > 0 or a tensor that broadcasts."""
    return _Squareplus.apply(x, c)


def rectifier(x: Any) -> Any:
    """Returns relu of `x`, the limit b = 0, with the derivative 1/2 at 0 that squareplus has for every b."""
    return _Rectifier.apply(x)


def _wide(x: Any) -> tuple[Any, str]:
    dtype = formulas.compute_dtype("float64" if x.dtype == torch.float64 else "float32")
    return x.to(getattr(torch, dtype)), dtype


def _keep(ctx: Any, inputs: tuple[Any, ...], *tensors: Any) -> None:
    c = inputs[1]
    ctx.c = None if torch.is_tensor(c) else c
    kept = (*tensors, c) if torch.is_tensor(c) else tensors
    ctx.save_for_backward(*kept)
    ctx.save_for_forward(*kept)


def _kept(ctx: Any) -> tuple[Any, Any]:
    y, *rest = ctx.saved_tensors
    return y, rest[0] if rest else ctx.c


class _Squareplus(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, c: Any) -> Any:
        wide, dtype = _wide(x)
        return formulas.value(_Namespace, wide, c, dtype, bounded=x.dtype == torch.float16).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        kept, c = _kept(ctx)
        y, dtype = _wide(kept)
        dy = dy.to(y.dtype)
        by_c = (dy * formulas.value_by_c(_Namespace, y, c, dtype)).sum_to_size(c.shape) if ctx.c is None else None
        return (dy * _Slope.apply(y, c)).to(kept.dtype), by_c

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, c_dot: Any) -> Any:
        kept, c = _kept(ctx)
        y, dtype = _wide(kept)
        total: Any = 0.0 if x_dot is None else x_dot.to(y.dtype) * _Slope.apply(y, c)
        total = total if c_dot is None else total + c_dot * formulas.value_by_c(_Namespace, y, c, dtype)
        return total.to(kept.dtype)


class _Slope(torch.autograd.Function):
    """dy/dx from y, with its own rule, so that its derivatives are accurate on both sides of 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Any, c: Any) -> Any:
        return formulas.slope(_Namespace, y, c, _wide(y)[1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, inputs[0])

    @staticmethod
    def backward(ctx: Any, u: Any) -> Any:
        y, c = _kept(ctx)
        dtype = _wide(y)[1]
        by_c = (u * formulas.slope_by_c(_Namespace, y, c, dtype)).sum_to_size(c.shape) if ctx.c is None else None
        return u * formulas.slope_by_y(_Namespace, y, c, dtype), by_c

    @staticmethod
    def jvp(ctx: Any, y_dot: Any, c_dot: Any) -> Any:
        y, c = _kept(ctx)
        dtype = _wide(y)[1]
        total = 0.0 if y_dot is None else y_dot * formulas.slope_by_y(_Namespace, y, c, dtype)
        return total if c_dot is None else total + c_dot * formulas.slope_by_c(_Namespace, y, c, dtype)


class _Rectifier(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.relu(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (x,) = ctx.saved_tensors
        return dy * (torch.sign(x) * 0.5 + 0.5)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        (x,) = ctx.saved_tensors
        return x_dot * (torch.sign(x) * 0.5 + 0.5)
