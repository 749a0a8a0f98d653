"""C code of a whole model: what a proven TFLite file computes, without an interpreter. Knows nothing of Keras."""
