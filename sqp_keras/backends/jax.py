"""Squareplus on JAX, with a derivative that keeps only the output."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sqp_keras.activation import formulas


def squareplus(x: Any, c: Any) -> Any:
    """Returns squareplus of the floating-point array `x` for c = b/4, a float > 0 or an array that broadcasts."""
    wide = formulas.compute_dtype(x.dtype.name)
    return _squareplus(wide, x.astype(wide), jnp.asarray(c, wide)).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _squareplus(wide: str, x: Any, c: Any) -> Any:
    return formulas.value(jnp, x, c, wide)


@_squareplus.defjvp
def _squareplus_jvp(wide: str, primals: Any, tangents: Any) -> Any:
    (x, c), (x_dot, c_dot) = primals, tangents
    y = _squareplus(wide, x, c)
    return y, x_dot * _slope(wide, y, c) + c_dot * formulas.value_by_c(jnp, y, c, wide)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slope(wide: str, y: Any, c: Any) -> Any:
    return formulas.slope(jnp, y, c, wide)


@_slope.defjvp
def _slope_jvp(wide: str, primals: Any, tangents: Any) -> Any:
    (y, c), (y_dot, c_dot) = primals, tangents
    by_y, by_c = formulas.slope_by_y(jnp, y, c, wide), formulas.slope_by_c(jnp, y, c, wide)
    return _slope(wide, y, c), y_dot * by_y + c_dot * by_c


@jax.custom_jvp
def rectifier(x: Any) -> Any:
    """Returns relu of `x`, the limit b = 0, with the derivative 1/2 at 0 that squareplus has for every b."""
    return jnp.maximum(x, 0)


@rectifier.defjvp
def _rectifier_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return rectifier(x), x_dot * (jnp.sign(x) * 0.5 + 0.5)
