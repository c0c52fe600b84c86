"""doctor: what it tells, and that it still tells it when half of the installation is missing."""

from __future__ import annotations

import json
import platform
import sys

import pytest

from tests.cli.conftest import Run

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
