"""The real interpreters, and what they measure."""
