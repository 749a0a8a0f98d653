"""The commands: arguments, progress, text."""
