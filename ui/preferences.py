"""What the controls say, remembered across restarts in one small file."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Nucleus, Rule
from nsd_local.verification.rules import make

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

    def settings(self) -> Settings:
        """The settings of the next answer. Raises UsageError where the values make no sense."""
        return Settings(
            law=Law(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p),
            rule=self._rule(),
            budget=self.budget,
            exact_first=self.exact_first,
            draft_tokens="auto" if self.k == "auto" else int(self.k),
            seed=self.seed,
            max_tokens=self.max_tokens,
        )

    def _rule(self) -> Rule:
        """The dials are those of nucleus; the other rules are taken as they are by default."""
        if self.rule == Nucleus.name:
            return Nucleus(theta=self.theta, strength=self.strength, cap=self.cap)
        return make(self.rule)

    def choice(self, base: Choice) -> Choice:
        """The pair to load; `base` is what the command line said."""
        options = replace(base.options, ctx=self.ctx or base.options.ctx)
        return replace(base, model=self.model or base.model, draft=self.draft or base.draft, options=options)


# Each preset sets only what it is about; everything else stays as it is.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "Balanced": (
        "The paper's rule with the guards on.",
        {"rule": "nucleus", "theta": 0.9, "strength": 1.0, "cap": None, "budget": None, "exact_first": 2, "k": "auto"},
    ),
    "Careful": (
        "Relaxed a little: no token may move the law by more than 0.1, the whole answer by no more than 2.",
        {"rule": "nucleus", "theta": 0.8, "strength": 0.5, "cap": 0.1, "budget": 2.0, "exact_first": 4, "k": "auto"},
    ),
    "Exact": ("The target's own law, to the last bit.", {"rule": "exact", "budget": None, "k": "auto"}),
    "Bold": (
        "A wider nucleus: more drafts are kept, at a higher deviation.",
        {"rule": "nucleus", "theta": 0.97, "strength": 1.0, "cap": None, "budget": None, "exact_first": 0, "k": "auto"},
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
    """The remembered preferences. A damaged file is set aside and `problem` says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.problem = ""
        self.now = self._load()

    def change(self, **values: Any) -> Preferences:
        """Changes some values and writes all of them, atomically."""
        with self._lock:
            changed = replace(self.now, **values)
            self.now = replace(changed, preset=preset_of(changed))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(dataclasses.asdict(self.now), indent=1), "utf-8")
            draft.replace(self._path)
            return self.now

    def _load(self) -> Preferences:
        try:
            values = json.loads(self._path.read_text("utf-8"))
            preferences = Preferences(**values)
            preferences.settings()
        except FileNotFoundError:
            return Preferences()
        except (OSError, ValueError, TypeError, UsageError) as error:
            self.problem = f"The remembered settings in {self._path} cannot be read ({error}); the defaults are used."
            return Preferences()
        return preferences
