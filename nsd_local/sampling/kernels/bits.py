"""Bit-level helpers on float32 that LLVM turns into single vector instructions.

They are numba intrinsics; with NUMBA_DISABLE_JIT=1 the same names are plain functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from nsd_local.sampling.jit import JIT_DISABLED

if JIT_DISABLED:

    def ordered_key(value: Any) -> Any:
        """int32 whose integer order is the float order (-0.0 just below 0.0, NaN beyond the infinities)."""
        bits = np.float32(value).view(np.int32)
        return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))

    def from_key(key: Any) -> Any:
        """The float32 that `ordered_key` came from."""
        key = np.int32(key)
        return (key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)

    def magnitude(value: Any) -> Any:
        """int32 bits without the sign: above 0x7F800000 exactly for NaN."""
        return np.float32(value).view(np.int32) & np.int32(0x7FFFFFFF)

    def two_to(exponent: Any) -> Any:
        """2**exponent for an integral float32 in [-127, 127]; 0 for -127."""
        return np.int32((int(exponent) + 127) << 23).view(np.float32)

else:
    from llvmlite import ir

    _INT, _FLOAT = ir.IntType(32), ir.FloatType()

    def _flip(builder: Any, bits: Any) -> Any:
        sign = builder.ashr(bits, ir.Constant(_INT, 31))
        return builder.xor(bits, builder.and_(sign, ir.Constant(_INT, 0x7FFFFFFF)))

    @intrinsic  # type: ignore[untyped-decorator]
    def ordered_key(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _flip(builder, builder.bitcast(args[0], _INT))

        return types.int32(types.float32), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def from_key(typingctx: Any, key: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(_flip(builder, args[0]), _FLOAT)

        return types.float32(types.int32), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def magnitude(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.and_(builder.bitcast(args[0], _INT), ir.Constant(_INT, 0x7FFFFFFF))

        return types.int32(types.float32), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def two_to(typingctx: Any, exponent: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            whole = builder.fptosi(args[0], _INT)
            biased = builder.add(whole, ir.Constant(_INT, 127))
            return builder.bitcast(builder.shl(biased, ir.Constant(_INT, 23)), _FLOAT)

        return types.float32(types.float32), codegen
