"""exp() that LLVM vectorises: the exponent is built by bits, the fraction by a polynomial."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.bits import two_to

# 2**r = 1 + r * P(r) on [-1/2, 1/2], minimax in the relative error (2e-9 before rounding to float32).
_HALF = np.float32(0.5)
_C1 = np.float32(0.693147180597)
_C2 = np.float32(0.240226505585)
_C3 = np.float32(0.0555040628984)
_C4 = np.float32(0.00961909873384)
_C5 = np.float32(0.00133623797334)
_C6 = np.float32(0.000148313443409)
_ONE = np.float32(1.0)


@njit
def weight(logit: Any, top: Any, high: Any, low: Any, floor: Any) -> Any:
    """exp((logit - top) / T) in float32, for logit <= top; 0 where it would fall under 2**-126.

    `high + low` is log2(e)/T split in two float32 numbers: rounding it to one would bend the whole law.
    `floor` is the distance at which the weight is 0; clamping there also takes care of -inf.
    """
    distance = logit - top
    distance = distance if distance > floor else floor
    scaled = distance * high
    whole = np.floor(scaled + _HALF)
    r = (scaled - whole) + distance * low
    poly = _ONE + r * (_C1 + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return poly * two_to(whole)


def split_temperature(temperature: float) -> tuple[float, float, float]:
    """(high, low, floor) of `weight` for a temperature above 0; floats that are exact in float32."""
    rate = min(math.log2(math.e) / temperature, 1e30)
    high = float(np.float32(rate))
    low = float(np.float32(rate - high))
    floor = float(np.float32(max(-127.0 / high, -3e38)))
    return high, low, floor
