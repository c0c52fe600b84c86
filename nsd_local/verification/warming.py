"""Compiling, or loading from disk, every kernel before it is needed."""

from __future__ import annotations

import numpy as np

from nsd_local.sampling.law import Law
from nsd_local.sampling.shape import Shape
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.greedy import Asd
from nsd_local.verification.rule import Exact, Nucleus, Rule
from nsd_local.verification.verifier import Verifier


def warm_up(n_vocab: int = 64, rule: Rule | None = None) -> None:
    """Runs small rounds through every kernel that `rule` and the core rules need, with the real dtypes.

    Safe in a thread while a model loads. Kernels do not depend on the size of the vocabulary, so a small one stands
    for `n_vocab`. The first time on a machine this compiles for seconds; later it loads from disk.
    """
    n = max(3, min(n_vocab, 64))
    verifier, uniforms = Verifier(n, 2), np.full(2, 1.0 - 1e-9)
    rows = np.linspace(-1.0, 1.0, n, dtype=np.float32)
    target, draft = np.array([rows] * 3), np.array([rows[::-1]] * 2)
    tokens = np.array([0, 0], np.int32)
    law = Law(0.7, 20, 0.9, 0.01)
    laws = [law, Law(0.0)] if rule is None or not isinstance(rule, Asd) else [Law(0.0)]
    for settings in laws:
        for one in (Nucleus(0.3), NucleusBlock(0.3), rule or Exact()):
            for drafts in (draft, None):
                verifier.verify(target, drafts, tokens, uniforms, 0.5, settings, one)
                verifier.verify(target, drafts, tokens, np.array([0.3, 1.0 - 1e-9]), 0.5, settings, one)
    shape = Shape(n)
    shape.take(rows, law, entropy=True)
    shape.mass_ahead(0)
