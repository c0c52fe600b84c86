"""What llama.cpp says about a model file, for `nsd-local show`."""

from __future__ import annotations

from pathlib import Path

from nsd_local.errors import NsdError


def model_facts(path: Path, *, trusted: bool = False) -> dict[str, str]:
    """Facts read from the file by llama.cpp; where that cannot be done, one fact that says why.

    A file that is not `trusted` is tried by a child process first.
    """
    try:
        from nsd_local.engine.context import Context
        from nsd_local.engine.model import Model
        from nsd_local.engine.options import ContextOptions, ModelOptions
        from nsd_local.engine.safe_open import ensure_openable

        ensure_openable(path, trusted=trusted)
        with Model.load(path, ModelOptions(load_mode="mmap", gpu_layers=0)) as model:
            facts = {
                "architecture": model.architecture,
                "description": model.description,
                "vocabulary": f"{model.n_vocab:,} tokens",
                "context": f"up to {model.n_ctx_train:,} tokens",
                "chat template": "yes" if model.chat_template else "no",
            }
            with Context(model, ContextOptions(n_ctx=256)) as context:
                facts["rollback"] = f"{'yes' if context.memory.rollback else 'no'}: {context.memory.reason}"
            return facts
    except NsdError as error:
        return {"llama.cpp": str(error)}
