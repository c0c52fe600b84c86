"""What this machine and this installation are, and what to do where something is missing.

Every part is looked at on its own: a part that cannot be loaded is reported, and the others still are. The command
`nsd-local doctor` and the doctor page of the chat app show the same.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from nsd_local import __version__
from nsd_local.catalog import Store, home, hub_cache, models_folder
from nsd_local.catalog.disk import free_bytes
from nsd_local.errors import NsdError

GIB = 2**30
MEMORY = (("total", "total"), ("free", "available"))
Sheet = dict[str, Any]
Sections = list[tuple[str, list[tuple[str, str]]]]  # (title, [(label, text)])


def examine() -> Sheet:
    """Everything doctor knows, as JSON-able values; sizes in bytes. `problems` lists what needs attention."""
    problems: list[str] = []
    report: Sheet = {
        "nsd_local": {"version": __version__, "folder": str(Path(__file__).parent)},
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "machine": _machine(),
        "numba": _attempt("numba", _numba, problems),
        "llama_cpp": _attempt("llama.cpp", _llama_cpp, problems),
        "gpu_build": _attempt("the GPU's driver", _gpu_build, problems),
        "folders": _folders(),
        "models": _models(),
    }
    for device in report["llama_cpp"].get("devices", ()):
        if device["kind"] == "cpu":  # llama.cpp calls free what the files' cache could not give back, too
            device.update({key: report["machine"][f"memory_{name}"] for key, name in MEMORY})
    report["problems"] = problems + _advice(report)
    return report


def _attempt(name: str, look: Callable[[], Sheet], problems: list[str]) -> Sheet:
    try:
        return look()
    except (NsdError, ImportError, OSError, RuntimeError, AttributeError) as error:
        why = error.why or error.what if isinstance(error, NsdError) else str(error)
        problems.append(f"{name} does not work: {why}")
        return {"error": f"does not work: {why}"}


def _machine() -> Sheet:
    from nsd_local.engine.memory_free import available_memory

    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_total": psutil.virtual_memory().total,
        "memory_available": available_memory(),
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
        "features": library.system_info().strip(" |"),
        "devices": [
            {"name": one.name, "kind": one.kind, "description": one.description, "total": one.total, "free": one.free}
            for one in devices()
        ],
    }


def _gpu_build() -> Sheet:
    from nsd_local.engine.devices import install_line

    line = install_line()
    command = _with_this_python(line.command)
    found = {"backend": line.backend, "reason": line.reason, "command": command}
    if line.backend == "CPU":
        plain = command.partition('" ')[2] if command.startswith("CMAKE_ARGS") else command
        flag = 'CMAKE_ARGS="-DGGML_CUDA=on" ' if sys.platform != "win32" else '$env:CMAKE_ARGS="-DGGML_CUDA=on"; '
        found["for_a_gpu"] = f"{flag}{plain}, or with -DGGML_METAL=on on a Mac"
    return found


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
            "memory": _memory(record.paths[0]),
        }
        for record in Store().records()
    ]


def _memory(path: Path) -> str:
    """What kind of memory a model has, from the header of its file; empty where that cannot be read."""
    try:
        from nsd_local.engine.estimate import memory_kind
        from nsd_local.engine.gguf_file import read_gguf

        return memory_kind(read_gguf(path))
    except (NsdError, ImportError, OSError):
        return ""


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


def sections(report: Sheet | None = None) -> Sections:
    """The report in words, in titled tables; rows with nothing to say are left out."""
    report = examine() if report is None else report
    llama, build, folders = report["llama_cpp"], report["gpu_build"], report["folders"]
    models = [
        row
        for model in report["models"]
        for row in (
            (model["name"], f"{model['bytes'] / 1e9:.2f} GB, {model['files'][0]}"),
            ("", f"memory {model['memory']}" if model["memory"] else ""),
        )
    ]
    problems = [(f"{n}.", problem) for n, problem in enumerate(report["problems"], 1)]
    tables: Sections = [
        ("Installation", _installation(report)),
        ("Machine", _machine_rows(report["machine"])),
        ("Devices", [(device["name"], _device(device)) for device in llama.get("devices", ())]),
        ("Build for this machine", _build_rows(build, llama)),
        (
            "Folders",
            [
                ("models", f"{folders['models']} ({folders['free'] / 1e9:.1f} GB free)"),
                ("Hub cache", folders["hub_cache"]),
                ("kernels", report["numba"].get("kernels") or ""),
            ],
        ),
        ("Models here", models or [("none", "nsd-local pull fetches the default pair")]),
        ("Problems", problems),
    ]
    kept = [(title, [row for row in rows if row[1]]) for title, rows in tables]
    return [(title, rows) for title, rows in kept if rows]


def _installation(report: Sheet) -> list[tuple[str, str]]:
    own, python, numba, llama = (report[key] for key in ("nsd_local", "python", "numba", "llama_cpp"))
    return [
        ("nsd-local", f"{own['version']} in {own['folder']}"),
        ("Python", f"{python['version']} ({python['executable']})"),
        ("numba", numba.get("error") or f"{numba['version']}{'' if numba['compiles'] else ', switched off'}"),
        ("llama.cpp", llama.get("error") or llama["version"]),
        ("GPU offload", "" if "error" in llama else "yes" if llama["gpu_offload"] else "no"),
        ("features", llama.get("features", "")),
    ]


def _machine_rows(machine: Sheet) -> list[tuple[str, str]]:
    physical, logical = machine["physical_cores"], machine["logical_cores"]
    return [
        ("system", f"{machine['system']}, {machine['architecture']}"),
        ("CPUs", f"{logical}" if physical in (None, logical) else f"{logical} ({physical} physical cores)"),
        ("memory", f"{_gib(machine['memory_available'])} of {_gib(machine['memory_total'])} available"),
    ]


def _build_rows(build: Sheet, llama: Sheet) -> list[tuple[str, str]]:
    words = str(build.get("error") or f"{build['backend']}: {build['reason']}")
    done = build.get("backend") == "CPU" and "error" not in llama
    install = "nothing needs to be done" if done else build.get("command", "")
    return [("backend", words), ("install", install), ("for a GPU", build.get("for_a_gpu", ""))]


def _device(device: Sheet) -> str:
    memory = f", {_gib(device['free'])} of {_gib(device['total'])} free" if device["total"] else ""
    return f"{device['description']} ({device['kind']}){memory}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
