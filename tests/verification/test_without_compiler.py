"""The same tests pass with numba's compiler switched off, and importing the light names loads no numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ["tests/sampling/test_shape.py", "tests/verification/test_vectors.py", "tests/verification/test_verifier.py"]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is the run without the compiler")
def test_kernels_are_right_as_plain_python() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES],
        cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-3000:]


def test_light_names_do_not_load_numba() -> None:
    code = (
        "import sys; from nsd_local.sampling import Law, Penalties; "
        "from nsd_local.verification import Exact, Nucleus, Verdict; print('numba' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_no_writable_cache_folder_is_no_obstacle(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("a folder cannot be made below a file")
    code = (
        "import numpy as np; from nsd_local.sampling.jit import CACHED; "
        "from nsd_local.sampling.kernels.prefix import block_count; "
        "print(CACHED, block_count(np.ones(3, np.float32), np.float32(1.0)))"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(blocker / "cache")}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert result.stdout.split() == ["False", "3"], result.stderr[-2000:]
