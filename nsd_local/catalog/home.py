"""Where nsd-local keeps what it fetches and what it has measured."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

HOME_VARIABLE = "NSD_LOCAL_HOME"


def home() -> Path:
    """The folder of everything nsd-local may fetch again: `$NSD_LOCAL_HOME`, else the user's cache folder."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return user_cache_path("nsd-local", appauthor=False)


def models_folder() -> Path:
    """Where model files lie; it need not exist yet."""
    return home() / "models"


def hub_cache() -> Path:
    """The Hugging Face Hub's own cache, shared with every other program that uses it.

    Read from the environment at each call, in the order huggingface_hub documents.
    """
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        chosen = os.environ.get(variable)
        if chosen:
            return Path(os.path.expandvars(chosen)).expanduser().absolute() / below
    return Path.home() / ".cache" / "huggingface" / "hub"
