"""The package as users get it: an installed wheel, and an editable install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("nsd_local", "models", "ui", "pyproject.toml", "README.md", "LICENSE")
PROBE = """
import json, sys
import nsd_local, nsd_local.models, nsd_local.ui
from nsd_local.catalog import load_catalog
from importlib.util import find_spec
print(json.dumps({
    "folder": nsd_local.__file__,
    "ui": nsd_local.ui.__file__,
    "pairs": len(load_catalog().pairs),
    "bare": [name for name in ("models", "ui") if find_spec(name)],
}))
"""


def pip(*arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--quiet", "--no-deps", "--disable-pip-version-check", "--no-input"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT.anchor,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what goes into the package, so that building leaves nothing in the checkout."""
    folder = tmp_path_factory.mktemp("project")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "-w", str(folder), str(project))
    (path,) = folder.glob("*.whl")
    return path


def probe(python: str, cwd: Path, **variables: str) -> dict[str, object]:
    import json

    answer = subprocess.run(
        [python, "-c", PROBE], cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, object] = json.loads(answer.stdout)
    return found


def test_the_wheel_holds_everything_and_no_bare_packages(wheel: Path, project: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"nsd_local"}
    assert {"nsd_local/models/catalog.toml", "nsd_local/models/README.md", "nsd_local/py.typed"} <= names
    expected = {path.relative_to(project).as_posix() for path in (project / "nsd_local").rglob("*.py")}
    for folder in ("ui", "models"):
        files = [path for path in (project / folder).rglob("*") if path.is_file()]
        expected |= {f"nsd_local/{path.relative_to(project).as_posix()}" for path in files}
    assert expected <= names


def test_an_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip("install", "--target", str(target), str(wheel))
    found = probe(sys.executable, tmp_path, PYTHONPATH=str(target))
    assert found["folder"] == str(target / "nsd_local" / "__init__.py")
    assert found["ui"] == str(target / "nsd_local" / "ui" / "__init__.py")
    assert found["bare"] == []
    assert found["pairs"]
    answer = subprocess.run(
        [sys.executable, "-m", "nsd_local", "list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target), "NSD_LOCAL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "(default)" in answer.stdout, answer.stderr


def test_an_editable_install_works(project: Path, tmp_path: Path) -> None:
    """In an environment that sees this one's packages, but not this one's nsd-local."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
    here = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    (site / "outer.pth").write_text(here)
    pip("--python", str(python), "install", "--no-build-isolation", "--editable", str(project))
    found = probe(str(python), tmp_path)
    assert found["folder"] == str(project / "nsd_local" / "__init__.py")
    assert found["ui"] == str(project / "ui" / "__init__.py")
    assert found["bare"] == []
    script = python.with_name("nsd-local.exe" if os.name == "nt" else "nsd-local")
    said = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("nsd-local ")


def test_every_package_is_declared() -> None:
    """A new folder of modules must be named in pyproject.toml, or the wheel lacks it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in (ROOT / "nsd_local").rglob("*.py") if "__pycache__" not in path.parts}
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    found |= {"nsd_local.models"} | {
        "nsd_local." + ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "ui").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert set(declared) == found
