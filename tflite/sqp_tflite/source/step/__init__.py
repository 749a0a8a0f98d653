"""From a model of whole sequences to one of a single time step: its inputs and states to its outputs and new states."""
