"""doctor: what it tells, and that it still tells it when half of the installation is missing."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsd_local.doctor import _build_rows, _memory
from tests.cli.conftest import Run
from tests.tiny import Tiny

WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # importing it fails from now on
from nsd_local.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_doctor_tells_what_is_here(nsd_local: Run) -> None:
    ended = nsd_local("doctor", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["python"] == {"version": platform.python_version(), "executable": sys.executable}
    assert report["machine"]["memory_total"] > 0
    assert "llama-cpp-python 0.3" in report["llama_cpp"]["version"]
    assert "CPU" in [device["name"] for device in report["llama_cpp"]["devices"]]
    assert f"{sys.executable} -m pip install" in report["gpu_build"]["command"]
    assert report["folders"]["models"].endswith("home/models")
    assert report["models"] == []


def test_the_cpu_has_the_memory_of_the_machine(nsd_local: Run) -> None:
    report = json.loads(nsd_local("doctor", "--json").stdout)
    cpu = next(device for device in report["llama_cpp"]["devices"] if device["kind"] == "cpu")
    machine = report["machine"]
    assert (cpu["free"], cpu["total"]) == (machine["memory_available"], machine["memory_total"])
    assert not report["llama_cpp"]["features"].endswith("|")


def test_what_to_install_is_said_where_something_is_missing_only() -> None:
    llama: dict[str, object] = {"gpu_offload": False}
    build = {"backend": "CPU", "reason": "no GPU driver was found", "command": "pip install x", "for_a_gpu": "y"}
    assert dict(_build_rows(build, llama))["install"] == "nothing needs to be done"
    assert dict(_build_rows(build, {"error": "does not work"}))["install"] == "pip install x"
    gpu = {"backend": "CUDA", "reason": "a driver", "command": 'CMAKE_ARGS="-DGGML_CUDA=on" pip install x'}
    assert dict(_build_rows(gpu, llama))["install"] == gpu["command"]


@pytest.mark.parametrize(
    ("kind", "memory"),
    [("llama", "plain"), ("gemma3", "window"), ("mamba", "recurrent"), ("jamba", "hybrid"), ("qwen35", "hybrid")],
)
def test_doctor_tells_what_memory_a_model_has(kind: Any, memory: str, tiny_model: Callable[[Tiny], Path]) -> None:
    assert _memory(tiny_model(Tiny(kind=kind))).startswith(f"{memory}: ")


def test_a_model_that_is_gone_has_no_memory() -> None:
    assert _memory(Path("no such file")) == ""


def test_doctor_in_words(nsd_local: Run) -> None:
    said = nsd_local("doctor").stdout
    for word in ("Python", "numba", "llama.cpp", "memory", "install", "Hub cache", "nsd-local pull"):
        assert word in said


@pytest.mark.parametrize("missing", ["llama_cpp", "numba", "llama_cpp,numba"])
def test_doctor_works_where_something_is_missing(missing: str, nsd_local: Run) -> None:
    ended = nsd_local(missing, "doctor", "--json", code=WITHOUT)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    for name in missing.split(","):
        assert "does not work" in report[name]["error"]
    assert len(report["problems"]) >= len(missing.split(","))
    if "llama_cpp" in missing:
        assert any("pip install" in problem for problem in report["problems"])
    assert "Problems" in nsd_local(missing, "doctor", code=WITHOUT).stdout


def test_switched_off_compilation_is_a_problem(nsd_local: Run) -> None:
    report = json.loads(nsd_local("doctor", "--json", NUMBA_DISABLE_JIT="1").stdout)
    assert any("NUMBA_DISABLE_JIT" in problem for problem in report["problems"])
