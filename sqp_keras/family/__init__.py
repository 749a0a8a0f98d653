"""Activations as sums of square roots."""
