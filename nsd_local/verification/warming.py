"""Compiling, or loading from disk, every kernel before it is needed."""

from __future__ import annotations

import numpy as np

from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Nucleus
from nsd_local.verification.verifier import Verifier


def warm_up(n_vocab: int = 64) -> None:
    """Runs one small round through every kernel with the real dtypes. Safe in a thread while a model loads.

    Kernels do not depend on the size of the vocabulary, so a small one stands for `n_vocab`.
    """
    n = max(2, min(n_vocab, 64))
    rows = np.linspace(-1.0, 1.0, 3 * n, dtype=np.float32).reshape(3, n)
    drafts, uniforms = np.array([n - 1], np.int32), np.array([0.999999])
    verifier = Verifier(n, 1)
    verifier.verify(rows[:2], rows[2:], drafts, uniforms, 0.5, Law(0.7, 20, 0.9, 0.01), Nucleus(0.3))
    verifier.verify(rows[:2, ::-1], rows[2:], drafts, uniforms, 0.5, Law(), Nucleus(0.3))  # a rejection
    verifier.verify(rows[:2, ::-1], None, drafts, uniforms, 0.5, Law(), Nucleus(0.3))
