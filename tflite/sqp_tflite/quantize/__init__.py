"""Turns a float file into an integer or half-precision file."""
