"""Rooms import downwards only. The sources are read, not run, so that lazy imports count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From the ground up. Rooms on one floor do not know each other.
FLOORS = (
    ("errors", "models", "__version__"),
    ("checks",),  # of settings
    ("catalog",),
    ("engine",),
    ("sampling",),
    ("verification",),
    ("drafting",),
    ("decoding",),
    ("chat",),
    ("loading", "api", "doctor"),
    ("measure",),
    ("ui",),  # stands beside the command line, which starts it
    ("cli",),
    ("__main__",),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
TOP_MODULES = ("loading", "api", "doctor")  # one floor, and these may know each other
ARRAYS_ONLY = ("sampling", "verification")


def sources() -> Iterator[tuple[str, Path]]:
    """(room, file) of everything that is installed."""
    for path in sorted((ROOT / "nsd_local").rglob("*.py")):
        parts = path.relative_to(ROOT / "nsd_local").with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], path
    for folder in ("ui", "models"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield folder, path


def imports(path: Path) -> Iterator[str]:
    """Every module that the file imports by its full name, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "nsd_local":
                yield from (f"nsd_local.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize(
    ("room", "path"), list(sources()), ids=lambda value: value.name if isinstance(value, Path) else value
)
def test_a_file_imports_only_rooms_below_its_own(room: str, path: Path) -> None:
    assert room in FLOOR, f"the room {room} has no floor yet"
    for module in imports(path):
        top, _, rest = module.partition(".")
        assert top not in ("ui", "models"), f"{module}: installed code has no such top-level package"
        if top != "nsd_local" or not rest:
            continue
        other = rest.split(".")[0]
        if other not in FLOOR:
            continue  # a name of the public face, such as `from nsd_local import load`
        together = room == other or (room in TOP_MODULES and other in TOP_MODULES)
        assert together or FLOOR[other] < FLOOR[room], f"{room} imports {module}, which is not below it"


@pytest.mark.parametrize("room", ARRAYS_ONLY)
def test_the_core_knows_arrays_only(room: str) -> None:
    for path in (ROOT / "nsd_local" / room).rglob("*.py"):
        for module in imports(path):
            assert module.split(".")[0] not in ("llama_cpp", "typer", "rich", "gradio", "huggingface_hub"), path
            assert not module.startswith(("nsd_local.engine", "nsd_local.catalog")), path


def test_only_the_engine_speaks_to_llama_cpp() -> None:
    for room, path in sources():
        if room not in ("engine", "chat"):  # chat renders templates with the binding's Jinja formatter
            assert "llama_cpp" not in {module.split(".")[0] for module in imports(path)}, path
