"""Tiny wheels that carry a file in pieces, as the package index source expects them."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_wheel(folder: Path, package: str, version: str, member: str, data: bytes) -> Path:
    """A wheel that pip accepts, with `data` at `<package>/<member>`."""
    module = package.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}/{member}", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def write_parts(folder: Path, package: str, version: str, data: bytes, parts: int) -> list[Path]:
    """`data` in `parts` wheels called `<package>1`, `<package>2`, ..., each with `data/partNN.bin`."""
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-len(data) // parts)
    return [
        write_wheel(folder, f"{package}{n}", version, f"data/part{n:02}.bin", data[(n - 1) * step : n * step])
        for n in range(1, parts + 1)
    ]
