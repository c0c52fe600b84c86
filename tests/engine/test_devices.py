"""Devices of the installed build, and the install line for a machine's GPU."""

from __future__ import annotations

import shutil
import sys

import pytest

from nsd_local.engine import devices as module
from nsd_local.engine import library
from nsd_local.engine.devices import devices, gpus, install_line
from nsd_local.errors import NsdError


def test_the_cpu_is_always_there():
    found = devices()
    cpu = next(device for device in found if device.kind == "cpu")
    assert cpu.name == "CPU"
    assert cpu.total >= cpu.free > 2**28
    assert not cpu.is_gpu
    assert all(device.is_gpu for device in gpus())
    assert library.supports_gpu() or gpus() == []


def test_versions_are_named():
    assert library.installed_version() in library.llama_version()
    assert library.system_info()


@pytest.mark.parametrize(
    ("platform", "machine", "programs", "libraries", "expected"),
    [
        ("linux", "x86_64", {"nvidia-smi"}, {"vulkan"}, ("CUDA", 'CMAKE_ARGS="-DGGML_CUDA=on" pip install')),
        ("linux", "x86_64", {"rocminfo"}, set(), ("ROCm", 'CMAKE_ARGS="-DGGML_HIP=on" pip install')),
        ("linux", "x86_64", set(), {"vulkan"}, ("Vulkan", 'CMAKE_ARGS="-DGGML_VULKAN=on" pip install')),
        ("linux", "x86_64", set(), set(), ("CPU", "pip install")),
        ("win32", "AMD64", set(), {"nvcuda"}, ("CUDA", '$env:CMAKE_ARGS="-DGGML_CUDA=on"; pip install')),
        ("win32", "AMD64", set(), {"vulkan-1"}, ("Vulkan", '$env:CMAKE_ARGS="-DGGML_VULKAN=on"; pip install')),
        ("darwin", "arm64", set(), set(), ("Metal", "pip install")),
        ("darwin", "x86_64", set(), set(), ("CPU", 'CMAKE_ARGS="-DGGML_METAL=off" pip install')),
    ],
)
def test_install_line_fits_the_machine(monkeypatch, tmp_path, platform, machine, programs, libraries, expected):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(module.platform, "machine", lambda: machine)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    monkeypatch.setattr(module.ctypes.util, "find_library", lambda name: name if name in libraries else None)
    monkeypatch.setattr(module, "Path", lambda _path: tmp_path / "nothing")
    line = install_line()
    assert (line.backend, line.command[: len(expected[1])]) == expected
    assert line.command.endswith(f"llama-cpp-python=={library.installed_version()}")
    assert line.reason


def test_a_missing_binding_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(library._Library, "binding", None)
    monkeypatch.setitem(sys.modules, "llama_cpp._ggml", None)
    with pytest.raises(NsdError, match="nsd-local doctor"):
        library.load()


def test_the_log_is_kept_and_not_printed(tiny_target, capfd):
    from nsd_local.engine.model import Model

    mark = library.log_mark()
    Model.load(tiny_target).close()
    assert any("general.architecture" in line for line in library.log_since(mark))
    assert library.log_since(library.log_mark()) == []
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
