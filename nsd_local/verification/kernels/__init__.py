"""Numba kernels over a pair of shaped rows. Pure: arrays in, numbers out, scratch passed in."""
