"""The three values of b that fit squareplus to softplus, and the range that b may have."""

B_CURVATURE = 4.0
"""b with softplus's second derivative at 0, 1/4. Max error against softplus: 0.307, at 0."""

B_VALUE = 1.9218120556728057
"""4*ln(2)**2: softplus's value at 0, the smallest b that never falls below softplus. Max error: 0.104."""

B_MINIMAX = 1.5238210325187507
"""b with the smallest max error against softplus, 0.0759, reached at 0 and at abs(x) = 3.56."""

B_SMALLEST = 1e-30
"""Smallest b above 0 that is accepted: b/4 and its products with outputs stay inside float32."""

B_LARGEST = 1e30
"""Largest b that is accepted: x*x + b stays inside float32."""

B_LEARNT_SMALLEST = 1e-4
"""A learnt b is kept at or above this: positive, and outputs in float16 still tell the slope (2.7 ULP)."""
