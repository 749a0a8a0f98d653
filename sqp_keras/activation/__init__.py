"""Squareplus: function, layer, formulas, and its name in Keras."""
