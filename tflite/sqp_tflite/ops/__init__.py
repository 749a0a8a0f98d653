"""Which operators may stand in a file, and which kernels each target's interpreter really has."""
