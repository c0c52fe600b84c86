"""From names to a loaded pair: find the files, load target and draft, check that they fit, or say why not."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from nsd_local.catalog import ModelFile, Reporter, Silent, resolve
from nsd_local.decoding.decoder import Decoder
from nsd_local.drafting.draft import Proposer
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, ModelOptions
from nsd_local.errors import ModelError
from nsd_local.verification import warm_up

DEFAULT_MODEL = "default"


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a pair is loaded. None leaves a choice to the program, which gives its reason (`Engine.describe`)."""

    ctx: int | None = None  # tokens
    threads: int | None = None
    gpu_layers: int | None = None
    draft_gpu_layers: int | None = None  # None: as the target
    offline: bool = False
    reporter: Reporter = field(default_factory=Silent)


class Loaded:
    """A target with its decoder, and everything that must be freed."""

    def __init__(self, target: Model, decoder: Decoder, files: dict[str, ModelFile], owned: ExitStack) -> None:
        self.target, self.decoder, self.files = target, decoder, files
        self.load_s = 0.0
        self._owned = owned

    def describe(self) -> dict[str, Any]:
        """The models for people and for JSON."""
        return {
            role: {"name": file.name, "path": str(file.path), "sha256": file.sha256}
            for role, file in self.files.items()
        }

    def close(self) -> None:
        """Contexts first, then models: the reverse of loading."""
        self._owned.close()


def load_pair(model: str | Path | None, draft: str | Path | None, options: LoadOptions) -> Loaded:
    """See `nsd_local.load`."""
    start = perf_counter()
    warm = threading.Thread(target=warm_up, daemon=True)  # numba's kernels compile while the files are read
    warm.start()
    with ExitStack() as owned:
        file = resolve(str(model or DEFAULT_MODEL), offline=options.offline, reporter=options.reporter)
        target = owned.enter_context(Model.load(file.path, ModelOptions(gpu_layers=options.gpu_layers)))
        context = owned.enter_context(Context(target, _context(options)))
        files = {"target": file}
        proposer, off = _proposer(file, draft, target, options, owned, files)
        decoder = Decoder(context, proposer, off=off)
        warm.join()
        loaded = Loaded(target, decoder, files, owned.pop_all())
        loaded.load_s = perf_counter() - start
        return loaded


def _proposer(
    file: ModelFile,
    draft: str | Path | None,
    target: Model,
    options: LoadOptions,
    owned: ExitStack,
    files: dict[str, ModelFile],
) -> tuple[Proposer | None, str]:
    """What drafts, or None and why nothing does."""
    wanted = str(draft) if draft is not None else file.draft
    if wanted is None or wanted == "none":
        return None, "drafting is off: no draft was given"
    try:
        drafter = resolve(wanted, role="draft", offline=options.offline, reporter=options.reporter)
        layers = options.gpu_layers if options.draft_gpu_layers is None else options.draft_gpu_layers
        with ExitStack() as attempt:
            model = attempt.enter_context(Model.load(drafter.path, ModelOptions(gpu_layers=layers)))
            context = attempt.enter_context(Context(model, _context(options)))
            owned.push(attempt.pop_all())
    except ModelError as error:
        return None, f"drafting is off: the draft failed to load ({error})"
    files["draft"] = drafter
    return ModelDraft(context, target.n_vocab), ""


def _context(options: LoadOptions) -> ContextOptions:
    return ContextOptions(n_ctx=options.ctx, threads=options.threads)
