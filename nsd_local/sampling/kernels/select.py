"""Where a prefix of the ranking ends, found without sorting the row.

Candidates above a threshold are gathered (few in a real row, and blocks below the threshold are skipped),
then a
quickselect over them finds the token that crosses the wanted mass. Flat rows go through a histogram first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.exponential import weight
from nsd_local.sampling.kernels.prefix import BLOCK, CUT, CUT_ID, FLOOR, HIGH, LOW, LOWEST, TOP, bound_of, inside

BINS = 1024
_NEAR = 6.0  # nats below the top that are tried first
_FAR = 40.0  # nats that the histogram resolves; what lies deeper shares its last bin
_ZERO = np.float32(0.0)
_LAST_BIN = np.float32(BINS - 1)
_MANY = 4096  # more candidates than this and the histogram is cheaper


@njit
def gather(row: Any, block_max: Any, tau: Any, cut: Any, cut_id: Any, found: Any, limit: int) -> int:
    """Ids in ascending order of the tokens in the prefix with logit >= tau; -1 when there are more than
    `limit`.
    """
    n = 0
    threshold = max(tau, cut)
    for b in range(block_max.shape[0]):
        if block_max[b] < threshold:
            continue
        for i in range(b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])):
            if row[i] >= tau and inside(row[i], i, cut, cut_id):
                if n >= limit:
                    return -1
                found[n] = i
                n += 1
    return n


@njit
def worth(row: Any, token: int, state: Any, counted: bool) -> float:
    """What a token adds: 1 where ranks are counted, its weight where mass is."""
    if counted:
        return 1.0
    return float(
        weight(
            row[token],
            np.float32(state[TOP]),
            np.float32(state[HIGH]),
            np.float32(state[LOW]),
            np.float32(state[FLOOR]),
        )
    )


@njit
def sum_worth(row: Any, found: Any, start: int, stop: int, state: Any, counted: bool) -> float:
    total = 0.0
    for i in range(start, stop):
        total += worth(row, found[i], state, counted)
    return total


@njit
def ranked_before(row: Any, a: Any, b: Any) -> Any:
    return row[a] > row[b] or (row[a] == row[b] and a < b)


@njit
def partition(row: Any, found: Any, start: int, stop: int) -> int:
    """Splits found[start:stop] around a median-of-three pivot by rank; returns where the pivot ended."""
    middle, end = (start + stop) // 2, stop - 1
    if ranked_before(row, found[middle], found[start]):
        found[start], found[middle] = found[middle], found[start]
    if ranked_before(row, found[end], found[middle]):
        found[middle], found[end] = found[end], found[middle]
        if ranked_before(row, found[middle], found[start]):
            found[start], found[middle] = found[middle], found[start]
    pivot = found[middle]
    found[middle], found[end] = found[end], found[middle]
    place = start
    for i in range(start, end):
        if ranked_before(row, found[i], pivot):
            found[i], found[place] = found[place], found[i]
            place += 1
    found[place], found[end] = found[end], found[place]
    return place


@njit
def crossing(row: Any, found: Any, n: int, state: Any, counted: bool, need: float) -> Any:
    """The token of found[:n] at which the worth summed by rank reaches `need`; the last one if rounding
    leaves less.
    """
    start, stop, last = 0, n, found[0]
    while start < stop:
        pivot = partition(row, found, start, stop)
        left = sum_worth(row, found, start, pivot, state, counted)
        if pivot > start and left >= need:
            stop = pivot
            continue
        need -= left
        last = found[pivot]
        own = worth(row, last, state, counted)
        if own >= need:
            return last
        need -= own
        start = pivot + 1
    return last


@njit
def bin_of(logit: Any, top: Any, scale: Any) -> Any:
    """Monotone in the logit; 0 is the top. The same arithmetic fills the histogram and reads it."""
    deep = (top - logit) * scale
    return int(deep) if deep < BINS - 1 else BINS - 1


@njit
def bin_scale(state: Any) -> Any:
    return np.float32(max(min(BINS / (_FAR * 1.4426950408889634) * state[HIGH], 1e30), 1e-30))


@njit
def block_bins(part: Any, bound: Any, numbers: Any, scale: Any, weights: Any, bins: Any) -> None:
    """Weights and bins of one block, in vectors; tokens outside the prefix weigh 0."""
    top, high, low, floor = numbers
    for i in range(part.shape[0]):
        w = weight(part[i], top, high, low, floor)
        weights[i] = w if part[i] >= bound else _ZERO
        deep = (top - part[i]) * scale
        bins[i] = np.int32(deep if deep < _LAST_BIN else _LAST_BIN)


@njit
def fill_histogram(row: Any, block_max: Any, state: Any, counted: bool, scratch: Any) -> None:
    """The worth of every bin into scratch's histogram."""
    histogram, weights, bins, _ = scratch
    numbers = (
        np.float32(state[TOP]),
        np.float32(state[HIGH]),
        np.float32(state[LOW]),
        np.float32(state[FLOOR]),
    )
    cut, cut_id, scale = np.float32(state[CUT]), int(state[CUT_ID]), bin_scale(state)
    histogram[:] = 0.0
    for b in range(block_max.shape[0]):
        bound, split = bound_of(b, cut, cut_id)
        if block_max[b] < bound:
            continue
        start, stop = b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])
        block_bins(row[start:stop], bound, numbers, scale, weights, bins)
        for i in range(stop - start):
            if split and not inside(row[start + i], start + i, cut, cut_id):
                continue
            if not counted:
                histogram[bins[i]] += weights[i]
            elif row[start + i] >= bound:
                histogram[bins[i]] += 1.0


@njit
def crossing_bin(histogram: Any, need: float) -> Any:
    """(bin, worth before it) where the worth summed from the top reaches `need`."""
    before, last, last_before = 0.0, 0, 0.0
    for j in range(BINS):
        if histogram[j] > 0.0:
            last, last_before = j, before
            before += histogram[j]
            if before >= need:
                break
    return last, last_before


@njit
def gather_bin(row: Any, block_max: Any, state: Any, which: int, found: Any) -> int:
    """Ids of the prefix's tokens in one bin."""
    top, cut, cut_id = np.float32(state[TOP]), np.float32(state[CUT]), int(state[CUT_ID])
    scale = bin_scale(state)
    n = 0
    for b in range(block_max.shape[0]):
        if block_max[b] < cut or bin_of(block_max[b], top, scale) > which:
            continue
        for i in range(b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])):
            if bin_of(row[i], top, scale) == which and inside(row[i], i, cut, cut_id):
                found[n] = i
                n += 1
    return n


@njit
def nth_largest(values: Any, n: int, work: Any) -> Any:
    """The n-th largest of values (n from 1 to their number), by quickselect on a copy in `work`."""
    work[: values.shape[0]] = values
    start, stop = 0, values.shape[0]
    while stop - start > 1:
        pivot = work[(start + stop) // 2]
        low, high = start, stop - 1
        while low <= high:  # Hoare: larger ones to the left
            while work[low] > pivot:
                low += 1
            while work[high] < pivot:
                high -= 1
            if low <= high:
                work[low], work[high] = work[high], work[low]
                low += 1
                high -= 1
        if n - 1 <= high:
            stop = high + 1
        elif n - 1 >= low:
            start = low
        else:
            return pivot
    return work[start]


@njit
def first_threshold(block_max: Any, state: Any, counted: bool, need: float, scratch: Any) -> Any:
    """A logit above which the wanted prefix probably lies: for counts surely, as `need` block maxima reach it."""
    if counted and need <= block_max.shape[0]:
        return max(nth_largest(block_max, int(need), scratch[3]), LOWEST)
    return np.float32(state[TOP] - _NEAR * 1.4426950408889634 / state[HIGH])


@njit
def prefix_end(row: Any, block_max: Any, state: Any, counted: bool, need: float, found: Any, scratch: Any) -> Any:
    """The last token of the smallest ranking prefix, within the state's law, whose mass or count reaches `need` > 0."""
    cut, cut_id = np.float32(state[CUT]), int(state[CUT_ID])
    near = first_threshold(block_max, state, counted, need, scratch)
    n = gather(row, block_max, near, cut, cut_id, found, _MANY)
    if n > 0 and sum_worth(row, found, 0, n, state, counted) >= need:
        return crossing(row, found, n, state, counted, need)
    fill_histogram(row, block_max, state, counted, scratch)
    which, before = crossing_bin(scratch[0], need)
    n = gather_bin(row, block_max, state, which, found)
    return crossing(row, found, n, state, counted, need - before)


@njit
def support_end(row: Any, block_max: Any, state: Any, spare: float, found: Any, scratch: Any) -> Any:
    """The last token of the smallest prefix that leaves out at most `spare` of mass.

    Summed from the bottom, where small masses are not lost beside large ones.
    """
    fill_histogram(row, block_max, state, False, scratch)
    histogram = scratch[0]
    behind, which = 0.0, BINS - 1
    while which > 0 and behind + histogram[which] <= spare:
        behind += histogram[which]
        which -= 1
    n = gather_bin(row, block_max, state, which, found)
    return crossing(row, found, n, state, False, histogram[which] - (spare - behind))
