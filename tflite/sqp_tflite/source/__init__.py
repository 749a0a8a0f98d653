"""The user's model and data, up to one float file."""
