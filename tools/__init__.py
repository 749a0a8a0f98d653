"""What tests and benchmarks share, and the scripts that make stored data: models, emulated cores, fitted sums."""
