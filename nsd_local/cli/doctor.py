"""`nsd-local doctor`: what this machine and this installation are, and what to do where something is missing.

Every part is looked at on its own: a part that cannot be loaded is reported, and the others still are.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from nsd_local import __version__
from nsd_local.catalog import Store, home, hub_cache, models_folder
from nsd_local.catalog.disk import free_bytes
from nsd_local.errors import NsdError

GIB = 2**30
Sheet = dict[str, Any]


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Look at this machine and this installation.

    Tells versions, backends, devices and memory, where things are kept, and how to install a build for the GPU.
    """
    report = examine()
    if as_json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        _print(report)


def examine() -> Sheet:
    """Everything doctor knows, as JSON-able values; sizes in bytes. `problems` lists what needs attention."""
    problems: list[str] = []
    report: Sheet = {
        "nsd_local": {"version": __version__, "folder": str(Path(__file__).parents[1])},
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "machine": _machine(),
        "numba": _attempt("numba", _numba, problems),
        "llama_cpp": _attempt("llama.cpp", _llama_cpp, problems),
        "gpu_build": _attempt("the GPU's driver", _gpu_build, problems),
        "folders": _folders(),
        "models": _models(),
    }
    report["problems"] = problems + _advice(report)
    return report


def _attempt(name: str, look: Callable[[], Sheet], problems: list[str]) -> Sheet:
    try:
        return look()
    except (NsdError, ImportError, OSError, RuntimeError, AttributeError) as error:
        problems.append(f"{name} does not work: {error}")
        return {"error": str(error)}


def _machine() -> Sheet:
    memory = psutil.virtual_memory()
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_total": memory.total,
        "memory_available": memory.available,
    }


def _numba() -> Sheet:
    from nsd_local.sampling import jit

    return {
        "version": metadata.version("numba"),
        "compiles": not jit.JIT_DISABLED,
        "kernels": os.environ.get("NUMBA_CACHE_DIR") if jit.CACHED else None,
    }


def _llama_cpp() -> Sheet:
    from nsd_local.engine import library
    from nsd_local.engine.devices import devices

    return {
        "version": library.llama_version(),
        "gpu_offload": library.supports_gpu(),
        "features": library.system_info(),
        "devices": [
            {"name": one.name, "kind": one.kind, "description": one.description, "total": one.total, "free": one.free}
            for one in devices()
        ],
    }


def _gpu_build() -> Sheet:
    from nsd_local.engine.devices import install_line

    line = install_line()
    return {"backend": line.backend, "reason": line.reason, "command": _with_this_python(line.command)}


def _with_this_python(command: str) -> str:
    """The same for the pip of this very Python, which need not be the one that `pip` finds."""
    python = sys.executable
    if " " in python:
        python = f'& "{python}"' if sys.platform == "win32" else shlex.quote(python)
    return command.replace("pip install", f"{python} -m pip install", 1)


def _folders() -> Sheet:
    return {
        "home": str(home()),
        "models": str(models_folder()),
        "hub_cache": str(hub_cache()),
        "free": free_bytes(models_folder()),
    }


def _models() -> list[Sheet]:
    return [
        {
            "name": record.name,
            "bytes": record.size,
            "trust": record.trust,
            "files": [str(path) for path in record.paths],
        }
        for record in Store().records()
    ]


def _advice(report: Sheet) -> list[str]:
    """What could be better, each with what to do."""
    said = []
    llama, build = report["llama_cpp"], report["gpu_build"]
    if "error" in llama and "command" in build:
        said.append(f"Install llama.cpp with: {build['command']}")
    elif build.get("backend", "CPU") != "CPU" and not llama.get("gpu_offload"):
        said.append(f"This build computes on the CPU alone, but {build['reason']}. Install with: {build['command']}")
    if not report["numba"].get("compiles", True):
        said.append("NUMBA_DISABLE_JIT is set: verification is very slow. Unset it")
    elif "error" not in report["numba"] and report["numba"]["kernels"] is None:
        said.append(
            "No folder for compiled kernels can be written: every start compiles them again. Set NUMBA_CACHE_DIR"
        )
    return said


def _print(report: Sheet) -> None:
    machine, llama, numba, folders = (report[key] for key in ("machine", "llama_cpp", "numba", "folders"))
    rows = [
        ("nsd-local", f"{report['nsd_local']['version']} in {report['nsd_local']['folder']}"),
        ("Python", f"{report['python']['version']} ({report['python']['executable']})"),
        ("System", f"{machine['system']}, {machine['architecture']}, {_cores(machine)}"),
        ("Memory", f"{_gib(machine['memory_available'])} of {_gib(machine['memory_total'])} available"),
        ("numba", numba.get("error") or f"{numba['version']}, kernels kept in {numba['kernels'] or 'no folder'}"),
        (
            "llama.cpp",
            llama.get("error") or f"{llama['version']}, GPU offload {'yes' if llama['gpu_offload'] else 'no'}",
        ),
        ("Features", llama.get("features", "")),
        *(("Device", _device(device)) for device in llama.get("devices", ())),
        ("GPU build", _build_words(report["gpu_build"])),
        ("", report["gpu_build"].get("command", "")),
        ("Models in", f"{folders['models']} ({folders['free'] / 1e9:.1f} GB free)"),
        ("Hub cache", folders["hub_cache"]),
        *(("Model", _model(model)) for model in report["models"]),
        *(("Problem", problem) for problem in report["problems"]),
    ]
    for label, text in rows:
        if text:
            print(f"{label.ljust(10)} {text}")
    if not report["models"]:
        print(f"{'Model'.ljust(10)} none yet; nsd-local pull fetches the default pair")


def _cores(machine: Sheet) -> str:
    physical, logical = machine["physical_cores"], machine["logical_cores"]
    return f"{logical} CPUs" if physical in (None, logical) else f"{physical} cores ({logical} threads)"


def _build_words(build: Sheet) -> str:
    return str(build.get("error") or f"{build['backend']}: {build['reason']}")


def _device(device: Sheet) -> str:
    memory = f", {_gib(device['free'])} of {_gib(device['total'])} free" if device["total"] else ""
    return f"{device['name']} ({device['kind']}): {device['description']}{memory}"


def _model(model: Sheet) -> str:
    return f"{model['name']} ({model['bytes'] / 1e9:.2f} GB): {model['files'][0]}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
