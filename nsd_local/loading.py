"""From names to a loaded pair: find the files, load target and draft, check that they fit, or say why not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from nsd_local.catalog import ModelFile, Reporter, Silent, resolve
from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.calibration import calibrated
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.variants import best_draft, recall
from nsd_local.drafting.draft import Proposer
from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.mixed import Mixed
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.compatibility import check_pair
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import CacheType, ContextOptions, LoadMode, Lora, ModelOptions
from nsd_local.engine.safe_open import ensure_openable
from nsd_local.errors import Cancelled, DownloadError, ModelError, NsdError
from nsd_local.verification import warm_up

DEFAULT_MODEL = "default"
LOOKUP = ("ngram", "lookup")
MIXED = "auto"  # lookup and draft model; "auto:NAME" says which draft


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a pair is loaded. None leaves a choice to the program, which says why (`Engine.describe`)."""

    ctx: int | None = None  # tokens
    threads: int | None = None
    gpu_layers: int | None = None
    draft_gpu_layers: int | None = None  # None: as the target
    device: str | None = None
    draft_device: str | None = None
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    flash_attention: bool | None = None
    mmap: bool | None = None
    lora: tuple[Lora, ...] = ()
    requantized: bool = True  # load the variant of a draft that `tune --requantize` found to be faster
    calibrate: bool = True  # measure the pair once where k is automatic; else speeds are learned while it runs
    offline: bool = False
    reporter: Reporter = field(default_factory=Silent, compare=False)

    def target(self) -> ModelOptions:
        return self._model(self.gpu_layers, self.device, self.lora)

    def draft(self) -> ModelOptions:
        layers = self.gpu_layers if self.draft_gpu_layers is None else self.draft_gpu_layers
        return self._model(layers, self.draft_device or self.device, ())

    def target_context(self) -> ContextOptions:
        return ContextOptions(
            n_ctx=self.ctx,
            threads=self.threads,
            cache_type_k=self.cache_type_k,
            cache_type_v=self.cache_type_v,
            flash_attention=self.flash_attention,
        )

    def draft_context(self, target: Context, draft: Model) -> ContextOptions:
        """As long as the target's, as far as the draft was trained. It evaluates single tokens, for which snapshots
        are of no use."""
        n_ctx = min(target.n_ctx, draft.n_ctx_train)
        return replace(self.target_context(), n_ctx=n_ctx, snapshots=0)

    def _model(self, gpu_layers: int | None, device: str | None, lora: tuple[Lora, ...]) -> ModelOptions:
        mode: LoadMode = "auto" if self.mmap is None else "mmap" if self.mmap else "none"
        return ModelOptions(gpu_layers=gpu_layers, device=device, load_mode=mode, lora=lora)


@dataclass(slots=True)
class Part:
    """A model in its role, with its memory."""

    file: ModelFile
    model: Model
    context: Context

    def describe(self) -> dict[str, Any]:
        """For people and for JSON: which file this is, what its memory allows, what was chosen and why."""
        choices = {name: str(choice) for name, choice in (self.model.choices | self.context.choices).items()}
        variant = None if self.model.path == self.file.path else recall(self.file.path)
        if variant is not None:
            choices["file"] = variant.told()
        return {
            "name": self.file.name,
            "path": str(self.model.path),
            "sha256": self.file.sha256 if variant is None else None,
            "licence": self.file.licence,
            "description": self.model.description,
            "memory": str(self.context.memory),
            "choices": choices,
        }


class Loaded:
    """A target, what drafts for it, and their decoder; owns them all."""

    def __init__(self, target: Part, draft: Part | None, decoder: Decoder, notices: tuple[str, ...], load_s: float):
        self.target, self.draft, self.decoder = target, draft, decoder
        self.notices = notices
        self.load_s = load_s

    @property
    def contexts(self) -> dict[str, Context]:
        """The memories by role."""
        return {"target": self.target.context} | ({"draft": self.draft.context} if self.draft else {})

    def describe(self) -> dict[str, Any]:
        """Target and draft, the latter None where no model drafts."""
        return {"target": self.target.describe(), "draft": self.draft.describe() if self.draft else None}

    def close(self) -> None:
        """Contexts first, then models."""
        self.decoder.close()
        if self.draft:
            self.draft.model.close()
        self.target.model.close()


class Tuned:
    """Makes the automatic draft length when it is first needed, from the pair's calibration on this machine."""

    def __init__(self, decoder: Decoder, target: Part, draft: Part | None, options: LoadOptions) -> None:
        self._decoder, self._target, self._draft, self._options = decoder, target, draft, options
        self._length: Adaptive | None = None

    def __call__(self, cancelled: Callable[[], bool]) -> Adaptive:
        if self._length is None:
            costs = None
            if self._options.calibrate:
                self._decoder.forget()  # the measurement needs both memories
                draft = self._draft.context if self._draft else None
                try:
                    costs = calibrated(self._target.context, draft, say=self._options.reporter.say, cancelled=cancelled)
                except Cancelled:  # so is the request that needs it; the next one measures
                    return Adaptive()
            self._length = Adaptive(costs)
        return self._length


def load_pair(model: str | Path | None, draft: str | Path | None, options: LoadOptions) -> Loaded:
    """See `nsd_local.load`."""
    start = perf_counter()
    warm = threading.Thread(target=warm_up, daemon=True)  # kernels compile, or come from disk, while files are read
    warm.start()
    with ExitStack() as undo:
        target = _load(DEFAULT_MODEL if model is None else str(model), "target", options)
        undo.callback(target.model.close)
        drafter, proposer, notices, off = _draft(target, draft, options)
        if drafter:
            undo.callback(drafter.model.close)
        if not target.context.memory.rollback:
            proposer, off = None, f"drafting is off: {target.context.memory.reason}"
        decoder = Decoder(target.context, proposer, off=off)
        decoder.adaptive = Tuned(decoder, target, drafter, options)
        warm.join()
        undo.pop_all()
    return Loaded(target, drafter, decoder, tuple(notices), perf_counter() - start)


def split_draft(spec: str) -> tuple[bool, str]:
    """(does prompt lookup draft?, the draft model's name; "" for the one that belongs to the target)."""
    if spec in LOOKUP or spec == "none":
        return spec != "none", ""
    head, colon, name = spec.partition(":")
    return (True, name if colon else "") if head == MIXED else (False, spec)


def _load(spec: str, role: Any, options: LoadOptions, target: Part | None = None) -> Part:
    file = resolve(spec, role=role, offline=options.offline, reporter=options.reporter)
    ensure_openable(file.path, trusted=file.verified)
    path = file.path
    if target is not None and options.requantized:
        path = best_draft(file.path, target.file.path) or file.path
    model = Model.load(path, options.target() if role == "target" else options.draft())
    try:
        wanted = options.draft_context(target.context, model) if target else options.target_context()
        return Part(file, model, Context(model, wanted))
    except BaseException:
        model.close()
        raise


def _draft(
    target: Part, wanted: str | Path | None, options: LoadOptions
) -> tuple[Part | None, Proposer | None, list[str], str]:
    """(model, proposer, notices, why nothing drafts). Raises PairError for a draft that does not fit the target.

    A draft that cannot be loaded does not stop the target: the reason becomes the visible line of every answer.
    """
    spec = str(wanted) if wanted is not None else target.file.draft or "ngram"
    if spec == "none":
        return None, None, [], "drafting is off: -d none"
    if spec in LOOKUP:
        return None, Lookup(), [], ""
    mixed, name = split_draft(spec)
    name = name or str(target.file.draft or "")
    if mixed and not name:
        return None, Lookup(), [f"no draft model is known for {target.file.name}: prompt lookup alone drafts"], ""
    try:
        drafter = _load(name, "draft", options, target)
    except (ModelError, DownloadError) as error:
        return None, None, [], f"drafting is off: the draft failed to load ({error})"
    try:
        notices = check_pair(target.model, drafter.model)
    except NsdError:
        drafter.model.close()
        raise
    proposer: Proposer = ModelDraft(drafter.context, target.model.n_vocab)
    return drafter, Mixed(Lookup(), proposer) if mixed else proposer, notices, ""
