"""The devices that llama.cpp can compute on, and how to get a build that uses this machine's GPU."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nsd_local.engine import library

Kind = Literal["cpu", "gpu", "igpu", "accelerator", "meta"]
_KINDS: tuple[Kind, ...] = ("cpu", "gpu", "igpu", "accelerator", "meta")  # enum ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the installed build."""

    name: str  # "CPU", "CUDA0", "Metal", "Vulkan0"
    description: str
    kind: Kind
    total: int  # bytes of its memory
    free: int
    handle: Any = field(repr=False, compare=False, default=None)

    @property
    def is_gpu(self) -> bool:
        return self.kind in ("gpu", "igpu")


def devices() -> list[Device]:
    """All devices, in llama.cpp's order."""
    return [_device(i) for i in range(_ggml("dev_count", [], ctypes.c_size_t)())]


def gpus() -> list[Device]:
    return [device for device in devices() if device.is_gpu] if library.supports_gpu() else []


def _ggml(name: str, arguments: list[Any], result: Any) -> Any:
    function = library.ggml_function(f"ggml_backend_{name}")
    function.argtypes, function.restype = arguments, result
    return function


def _device(index: int) -> Device:
    pointer, size = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    handle = _ggml("dev_get", [ctypes.c_size_t], pointer)(index)
    name = _ggml("dev_name", [pointer], ctypes.c_char_p)(handle)
    description = _ggml("dev_description", [pointer], ctypes.c_char_p)(handle)
    kind = _ggml("dev_type", [pointer], ctypes.c_int)(handle)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    _ggml("dev_memory", [pointer, size, size], None)(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=(name or b"").decode("utf-8", "replace"),
        description=(description or b"").decode("utf-8", "replace"),
        kind=_KINDS[kind] if 0 <= kind < len(_KINDS) else "accelerator",
        total=total.value,
        free=free.value,
        handle=handle,
    )


@dataclass(frozen=True, slots=True)
class Install:
    """A command that installs llama-cpp-python for this machine, and why this one."""

    command: str
    backend: str  # "CUDA", "Metal", "ROCm", "Vulkan", "CPU"
    reason: str


def install_line() -> Install:
    """The exact line for this machine's GPU. Looks at drivers, not at the installed build, and needs no llama.cpp."""
    flags, backend, reason = _backend()
    version = library.installed_version() or "0.3.36"
    pip = f"pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python=={version}"
    if not flags:
        return Install(pip, backend, reason)
    if sys.platform == "win32":
        return Install(f'$env:CMAKE_ARGS="{flags}"; {pip}', backend, reason)
    return Install(f'CMAKE_ARGS="{flags}" {pip}', backend, reason)


def _backend() -> tuple[str, str, str]:
    """CMake flags, backend, reason."""
    if sys.platform == "darwin":
        if platform.machine() == "arm64":
            return "", "Metal", "Apple Silicon; Metal is on by default"
        return "-DGGML_METAL=off", "CPU", "an Intel Mac"
    if nvidia := _nvidia():
        return "-DGGML_CUDA=on", "CUDA", f"an NVIDIA driver is installed ({nvidia}); needs the CUDA toolkit"
    if Path("/opt/rocm").is_dir() or shutil.which("rocminfo"):
        return "-DGGML_HIP=on", "ROCm", "ROCm is installed"
    if ctypes.util.find_library("vulkan") or ctypes.util.find_library("vulkan-1"):
        return "-DGGML_VULKAN=on", "Vulkan", "a Vulkan driver is installed; needs the Vulkan SDK"
    return "", "CPU", "no GPU driver was found"


def _nvidia() -> str:
    if found := shutil.which("nvidia-smi"):
        return found
    if Path("/proc/driver/nvidia/version").is_file():
        return "/proc/driver/nvidia"
    return "nvcuda.dll" if sys.platform == "win32" and ctypes.util.find_library("nvcuda") else ""
