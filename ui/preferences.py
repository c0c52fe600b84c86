"""What the controls say, remembered across restarts in one small file."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsd_local.catalog.disk import why
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Nucleus, Rule
from nsd_local.verification.rules import parse

from .choice import Choice


@dataclass(frozen=True, slots=True)
class Preferences:
    """The controls' values. Those of the pair need a reload, the rest apply to the next answer."""

    model: str | None = None
    draft: str | None = None
    ctx: int | None = None
    preset: str = "Balanced"
    rule: str = "nucleus"
    theta: float = 0.9
    strength: float = 1.0
    cap: float | None = None
    block: bool = True
    budget: float | None = None
    exact_first: int = 2
    k: str = "auto"
    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.05
    seed: int | None = None
    max_tokens: int | None = None
    system: str = ""

    def settings(self, usual: Settings | None = None) -> Settings:
        """The settings of the next answer; `usual` has those without a dial. Raises UsageError for nonsense."""
        return replace(
            usual or Settings(),
            law=Law(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p),
            rule=self._rule(),
            block=self.block,
            budget=self.budget,
            exact_first=self.exact_first,
            draft_tokens="auto" if self.k == "auto" else int(self.k),
            seed=self.seed,
            max_tokens=self.max_tokens,
        )

    def _rule(self) -> Rule:
        """The dials are those of nucleus; the other rules are written with their parameters, as "topk:n=2"."""
        if self.rule == Nucleus.name:
            return Nucleus(theta=self.theta, strength=self.strength, cap=self.cap)
        return parse(self.rule)

    def choice(self, base: Choice) -> Choice:
        """The pair to load at start: what the command line said (`base`), and for the rest what was chosen last.

        The draft and the context that were chosen last belong to the model that was.
        """
        if base.model:
            return base
        options = replace(base.options, ctx=base.options.ctx or self.ctx)
        return replace(base, model=self.model, draft=base.draft or self.draft, options=options)


NUCLEUS: dict[str, Any] = {"rule": "nucleus", "block": True, "k": "auto"}
# Each preset sets only what it is about; everything else stays as it is.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "Balanced": (
        "Nucleus with the guards on.",
        NUCLEUS | {"theta": 0.9, "strength": 1.0, "cap": None, "budget": None, "exact_first": 2},
    ),
    "Careful": (
        "Relaxed a little: no token may move the law by more than 0.1, the whole answer by no more than 2.",
        NUCLEUS | {"theta": 0.8, "strength": 0.5, "cap": 0.1, "budget": 2.0, "exact_first": 4},
    ),
    "Exact": ("The target's own law, to the last bit.", {"rule": "exact", "budget": None, "k": "auto"}),
    "Bold": (
        "A wider nucleus: more drafts are kept, at a higher deviation.",
        NUCLEUS | {"theta": 0.97, "strength": 1.0, "cap": None, "budget": None, "exact_first": 0},
    ),
    "Plain": ("No drafting: the speed that everything else is compared with.", {"k": "0"}),
}
CUSTOM = "Custom"


def preset_of(preferences: Preferences) -> str:
    """The preset that these values are, or `Custom`."""
    for name, (_, values) in PRESETS.items():
        if all(getattr(preferences, key) == value for key, value in values.items()):
            return name
    return CUSTOM


class Memory:
    """The remembered preferences. A damaged file is set aside and `problem` says so.

    `usual` holds the settings that have no dial. They come from the command line and are not remembered.
    """

    def __init__(self, path: Path, usual: Settings | None = None) -> None:
        self._path = path
        self._usual = usual
        self._lock = threading.Lock()
        self.problem = ""
        self.now = self._load()

    def settings(self, **values: Any) -> Settings:
        """The settings of the next answer, with some dials set otherwise. Raises UsageError for nonsense."""
        return replace(self.now, **values).settings(self._usual)

    def change(self, **values: Any) -> Preferences:
        """Changes some values and writes all of them. Raises UsageError, and changes nothing, for nonsense."""
        with self._lock:
            changed = replace(self.now, **values)
            changed.settings()
            self.now = replace(changed, preset=preset_of(changed))
            self._write()
            return self.now

    def _write(self) -> None:
        """Whole or not at all. A folder that cannot be written costs the remembering only."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(dataclasses.asdict(self.now), indent=1), "utf-8")
            draft.replace(self._path)
        except OSError as error:
            self.problem = f"The settings cannot be remembered in {self._path}: {why(error)}."

    def _load(self) -> Preferences:
        try:
            values = json.loads(self._path.read_text("utf-8"))
            preferences = Preferences(**values)
            preferences.settings()
        except FileNotFoundError:
            return Preferences()
        except (OSError, ValueError, TypeError, UsageError) as error:
            self.problem = (
                f"The remembered settings in {self._path} cannot be read ({error}); the defaults are used. "
                f"{self._set_aside()}"
            )
            return Preferences()
        return preferences

    def _set_aside(self) -> str:
        """Keeps a damaged file from being overwritten; says where it is."""
        aside = self._path.with_name(f"{self._path.name}.damaged")
        try:
            self._path.replace(aside)
        except OSError as error:
            return f"The file cannot be set aside: {why(error)}."
        return f"The file was set aside as {aside}."
