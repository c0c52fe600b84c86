"""Named pairs, where their files come from, and what of them is on this machine.

`resolve("default")` gives the default pair's target as a `ModelFile`, fetching it where it is missing.
"""

from nsd_local.catalog.catalog import Catalog, load_catalog
from nsd_local.catalog.entry import Entry, Pair
from nsd_local.catalog.home import home, hub_cache, models_folder
from nsd_local.catalog.model_file import ModelFile
from nsd_local.catalog.reporter import Reporter, Silent
from nsd_local.catalog.resolve import interpret, locate, resolve
from nsd_local.catalog.store import Store

__all__ = [
    "Catalog",
    "Entry",
    "ModelFile",
    "Pair",
    "Reporter",
    "Silent",
    "Store",
    "home",
    "hub_cache",
    "interpret",
    "load_catalog",
    "locate",
    "models_folder",
    "resolve",
]
