"""Emulated Cortex-M cores, and the reference that `sqp.h` is held to bit by bit."""
