"""The flags that `generate`, `chat`, `bench` and `ui` share, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from nsd_local.catalog import Reporter
from nsd_local.catalog.disk import unreadable
from nsd_local.decoding.settings import Settings
from nsd_local.engine.options import CacheType, Lora
from nsd_local.errors import UsageError
from nsd_local.loading import LoadOptions
from nsd_local.sampling import Law, Penalties
from nsd_local.verification.rule import Rule
from nsd_local.verification.rules import make, parameters, parse

MODELS, DRAFTING, SAMPLING, LENGTH, MACHINE = (
    "Models",
    "Drafting and verification",
    "Sampling",
    "Text",
    "Machine",
)


def _flag(*names: str, panel: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=more.pop("show_default", True), **more)


@dataclass(frozen=True, slots=True)
class Options:
    """What the shared flags said."""

    model: Annotated[
        str | None,
        _flag(
            "--model",
            "-m",
            panel=MODELS,
            help="Catalog name, GGUF path, or hf-repo:quant.",
            show_default="the default pair",
        ),
    ] = None
    draft: Annotated[
        str | None,
        _flag(
            "--draft",
            "-d",
            panel=MODELS,
            help="The same, or none, ngram (prompt lookup), auto (lookup and draft model), auto:NAME.",
            show_default="the pair's draft; prompt lookup for other models",
        ),
    ] = None
    offline: Annotated[bool, _flag("--offline", panel=MODELS, help="Never reach for the network.")] = False
    lora: Annotated[
        list[Path] | None, _flag("--lora", panel=MODELS, help="LoRA adapter (GGUF) on the target; repeatable.")
    ] = None

    rule: Annotated[
        str, _flag("--rule", panel=DRAFTING, help="Verification rule, such as nucleus, exact or topk:n=2.")
    ] = "nucleus"
    block: Annotated[
        bool,
        _flag(
            "--block/--no-block",
            panel=DRAFTING,
            help="nucleus judges a round's drafts together, or one by one as in the paper.",
        ),
    ] = True
    theta: Annotated[float | None, _flag("--theta", panel=DRAFTING, help="Nucleus threshold.", show_default="0.9")] = (
        None
    )
    strength: Annotated[
        float | None,
        _flag("--strength", panel=DRAFTING, help="Share of nucleus tokens kept; 0 is exact.", show_default="1"),
    ] = None
    cap: Annotated[float | None, _flag("--cap", panel=DRAFTING, help="Largest deviation of a single token.")] = None
    budget: Annotated[
        float | None,
        _flag("--budget", panel=DRAFTING, help="Largest deviation of the whole answer; then exact."),
    ] = None
    deviation: Annotated[
        float | None,
        _flag("--deviation", panel=DRAFTING, help="Hold this deviation per token by choosing the strength."),
    ] = None
    exact_first: Annotated[
        int,
        _flag("--exact-first", panel=DRAFTING, help="This many first tokens are verified exactly.", min=0),
    ] = 2
    draft_tokens: Annotated[
        str, _flag("--draft-tokens", "-k", panel=DRAFTING, help="Tokens drafted per round: a number or auto.")
    ] = "auto"

    temperature: Annotated[float, _flag("--temperature", panel=SAMPLING, help="0 always takes the likeliest.")] = 0.7
    top_k: Annotated[int, _flag("--top-k", panel=SAMPLING, help="Keep this many likeliest tokens; 0 keeps all.")] = 0
    top_p: Annotated[float, _flag("--top-p", panel=SAMPLING, help="Keep the likeliest up to this mass.")] = 1.0
    min_p: Annotated[
        float, _flag("--min-p", panel=SAMPLING, help="Drop tokens less likely than this times the likeliest.")
    ] = 0.05
    repeat_penalty: Annotated[
        float, _flag("--repeat-penalty", panel=SAMPLING, help="Above 1 makes repetition unlikelier.")
    ] = 1.0
    seed: Annotated[
        int | None,
        _flag("--seed", panel=SAMPLING, help="Same seed, same settings, same answer.", show_default="random"),
    ] = None

    max_tokens: Annotated[
        int | None,
        _flag("--max-tokens", "-n", panel=LENGTH, help="Stop after this many tokens.", show_default="no limit"),
    ] = None
    stop: Annotated[
        list[str] | None, _flag("--stop", panel=LENGTH, help="End the text before this string; repeatable.")
    ] = None
    system: Annotated[str | None, _flag("--system", "-s", panel=LENGTH, help="System prompt.")] = None
    grammar: Annotated[
        Path | None, _flag("--grammar", panel=LENGTH, help="File with a grammar (GBNF) that the answer follows.")
    ] = None
    json_schema: Annotated[
        Path | None, _flag("--json-schema", panel=LENGTH, help="File with a JSON schema that the answer fits.")
    ] = None

    ctx: Annotated[
        int | None,
        _flag("--ctx", panel=MACHINE, help="Context length in tokens.", show_default="8192 or what fits"),
    ] = None
    threads: Annotated[
        int | None, _flag("--threads", panel=MACHINE, help="CPU threads.", show_default="physical cores")
    ] = None
    gpu_layers: Annotated[
        int | None,
        _flag("--gpu-layers", panel=MACHINE, help="Layers on the GPU.", show_default="all that there is"),
    ] = None
    draft_gpu_layers: Annotated[
        int | None,
        _flag("--draft-gpu-layers", panel=MACHINE, help="The same for the draft.", show_default="as the target"),
    ] = None
    device: Annotated[
        str | None, _flag("--device", panel=MACHINE, help="Device of the target, as doctor names it.")
    ] = None
    draft_device: Annotated[str | None, _flag("--draft-device", panel=MACHINE, help="Device of the draft.")] = None
    cache_type_k: Annotated[CacheType, _flag("--cache-type-k", panel=MACHINE, help="KV cache type of keys.")] = "f16"
    cache_type_v: Annotated[CacheType, _flag("--cache-type-v", panel=MACHINE, help="KV cache type of values.")] = "f16"
    flash_attn: Annotated[
        Literal["auto", "on", "off"], _flag("--flash-attn", panel=MACHINE, help="auto, on or off.")
    ] = "auto"
    mmap: Annotated[
        bool | None,
        _flag(
            "--mmap/--no-mmap",
            panel=MACHINE,
            help="Map files: starts faster, may take twice the memory.",
            show_default="as the machine needs",
        ),
    ] = None

    def loading(self, reporter: Reporter) -> LoadOptions:
        """How the pair is loaded."""
        return LoadOptions(
            ctx=self.ctx,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            draft_gpu_layers=self.draft_gpu_layers,
            device=self.device,
            draft_device=self.draft_device,
            cache_type_k=self.cache_type_k,
            cache_type_v=self.cache_type_v,
            flash_attention=None if self.flash_attn == "auto" else self.flash_attn == "on",
            mmap=self.mmap,
            lora=tuple(Lora(path) for path in self.lora or ()),
            offline=self.offline,
            reporter=reporter,
        )

    def settings(self) -> Settings:
        """The settings of one request."""
        return Settings(
            penalties=Penalties(repeat=self.repeat_penalty),
            law=Law(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p),
            rule=self._rule(),
            block=self.block,
            budget=self.budget,
            exact_first=self.exact_first,
            draft_tokens=_draft_tokens(self.draft_tokens),
            max_tokens=self.max_tokens,
            stop=tuple(self.stop or ()),
            grammar=_text(self.grammar, "--grammar"),
            json_schema=_text(self.json_schema, "--json-schema"),
            seed=self.seed,
        )

    def _rule(self) -> Rule:
        """The rule that --rule names, with the parameters that have flags of their own."""
        rule = parse("auto-strength" if self.deviation is not None and self.rule == "nucleus" else self.rule)
        flags = {name: getattr(self, name) for name in ("theta", "strength", "cap", "deviation")}
        given = {name: value for name, value in flags.items() if value is not None}
        unknown = given.keys() - parameters(type(rule)).keys()
        if unknown:
            raise UsageError(f"The rule {rule.name} has no --{min(unknown)}", "", "See: nsd-local rules")
        return make(rule.name, {**asdict(rule), **given})


def _text(path: Path | None, flag: str) -> str | None:
    if path is None:
        return None
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error, f"{flag} takes a text file") from None


def _draft_tokens(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--draft-tokens takes a number or auto, not {text!r}") from None


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the shared flags: it receives them as `options`, beside the parameters of its own."""
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]
    hints = get_type_hints(command, include_extras=True)
    shared = get_type_hints(Options, include_extras=True)

    @functools.wraps(command)
    def with_shared(**given: Any) -> None:
        options = Options(**{field.name: given.pop(field.name) for field in fields(Options)})
        command(options=options, **given)

    parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters += [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=shared[f.name])
        for f in fields(Options)
    ]
    with_shared.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    with_shared.__annotations__ = {p.name: p.annotation for p in parameters}
    del with_shared.__wrapped__  # else typer would look through to the bare command
    return with_shared
