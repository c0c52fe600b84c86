"""Finding out what a new context's memory can do, by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsd_local.engine import library
from nsd_local.engine.memory import MemoryVerdict, verdict
from nsd_local.engine.native import granted_window
from nsd_local.errors import DecodeError, ModelError

if TYPE_CHECKING:
    from nsd_local.engine.context import Context


def judge(context: Context) -> MemoryVerdict:
    """Evaluates two tokens and looks whether the second can be taken back. Also warms the buffers up.

    Raises ModelError where the model cannot be evaluated.
    """
    lib, model = library.load(), context.model
    token = max(0, model.vocabulary.bos)
    try:
        context.evaluate([token, token][: context.n_ctx], rows=1)
    except DecodeError as error:
        raise ModelError(f"{model.path} cannot be evaluated", str(error), "Choose another model") from error
    stateful = model.is_recurrent or model.is_hybrid
    removable = not stateful and bool(lib.llama_memory_seq_rm(lib.llama_get_memory(context.handle), 0, 1, -1))
    state = 0 if removable else context.rollback.checkpoints.state_size()
    context.clear()
    return verdict(
        recurrent=model.is_recurrent,
        hybrid=model.is_hybrid,
        window=model.n_window,
        window_full=context.plan.swa_full,
        window_cells=granted_window(model, context.plan),
        snapshots=context.rollback.snapshots,
        removable=removable,
        state=state,
    )
