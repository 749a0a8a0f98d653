"""A TFLite file: read as an immutable `Graph`, changed by one `Editor`."""
