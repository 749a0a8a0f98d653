"""Whole models: activations found, exchanged, distilled."""
