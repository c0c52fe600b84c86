"""Numba kernels over one row of logits. Pure: arrays in, numbers out, scratch passed in.

Importing any of these modules imports numba; the room itself does so only when a `Shape` is made.
"""
