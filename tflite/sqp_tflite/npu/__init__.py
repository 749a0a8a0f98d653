"""Targets with an NPU: their own compiler judges a file, and says what it would take."""
