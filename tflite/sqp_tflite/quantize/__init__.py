"""A float file to an integer or half-precision one."""
