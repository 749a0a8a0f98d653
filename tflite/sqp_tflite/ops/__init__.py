"""Which operators a file may hold, and which kernels each target's interpreter really has."""
