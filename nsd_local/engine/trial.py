"""The child process that opens a model file for the first time: `python -m nsd_local.engine.trial`.

Reads one JSON string (a path) per line, writes one JSON object (a verdict) per line. A malformed file may end this
process; the parent sees which file it was at. It ends with its parent, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, ModelOptions
from nsd_local.errors import ModelError, NsdError

_SAMPLE = "Hello, world!\n    def f(x): return x ** 2  # na\u00efve \u4f60\u597d"
_HEADROOM = 8 * 2**30  # bytes of address space beyond the file


def try_open(path: Path) -> None:
    """Everything that a malformed file could break: header, tensors, vocabulary, one evaluation.

    Weights are mapped and not copied, so that this takes little memory of its own. Raises NsdError.
    """
    with Model.load(path, ModelOptions(device="none", load_mode="mmap", repack=False)) as model:
        model.vocabulary.spell_out()
        tokens = model.tokenize(_SAMPLE, special=True, add_bos=True)[:3] or [0]
        _ = model.eog, model.metadata, model.description
        with Context(model, ContextOptions(n_ctx=256, n_batch=64, max_outputs=1)) as context:
            row = context.evaluate(tokens, rows=1)[0]
            if np.isnan(row).any() or not np.isfinite(row.max()):
                raise ModelError(f"{path} gives no usable numbers", "its weights are damaged", "Download it again")


def limit_resources(size: int) -> None:
    """A header that asks for absurd amounts must fail here, not take the machine's memory. No core dumps."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = size + _HEADROOM
    if sys.platform == "linux" and (hard == resource.RLIM_INFINITY or hard > wanted):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _listen(lines: SimpleQueue[bytes]) -> None:
    """Hands on what the parent asks, and ends the process when there is nobody left to ask."""
    with open(0, "rb", buffering=0, closefd=False) as source:  # Python's end trips over a buffer's lock
        for line in source:
            lines.put(line)
    os._exit(0)


def main() -> None:
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        path = Path(json.loads(lines.get()))
        answer = {"ok": True, "what": "", "why": "", "do": ""}
        try:
            limit_resources(path.stat().st_size if path.is_file() else 0)
            try_open(path)
        except NsdError as error:
            answer = {"ok": False, "what": error.what, "why": error.why, "do": error.do}
        except MemoryError:
            answer = {"ok": False, "what": f"{path} asks for too much memory", "why": "", "do": "Download it again"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
