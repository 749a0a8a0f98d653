"""Whole models: finding and exchanging their activations, dropping heads, distilling."""
