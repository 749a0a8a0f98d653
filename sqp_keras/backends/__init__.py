"""The gradient rules, one module per Keras backend; each is imported only on its backend."""
