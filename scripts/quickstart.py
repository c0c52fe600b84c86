#!/usr/bin/env python3
"""From a fresh clone to an answer: python scripts/quickstart.py "Write a Python function that ..."

Needs a Python (3.10 or newer) and a C++ compiler. The first run makes `.venv`, installs nsd-local, fetches the default
pair of models (1.6 GB) and answers; later runs answer at once. Further arguments go to `nsd-local generate`.
"""

from __future__ import annotations

import subprocess
import sys

import environment

PROMPT = "Write a Python function that merges two sorted lists."


def main() -> int:
    arguments = sys.argv[1:] or [PROMPT]
    if arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    environment.ensure()
    nsd_local = [str(environment.python()), "-m", "nsd_local"]
    # Says how large the models are and fetches them; on later runs it returns at once.
    pulled = subprocess.run([*nsd_local, "pull"], stdout=subprocess.DEVNULL, check=False)
    if pulled.returncode != 0:
        return pulled.returncode
    return subprocess.run([*nsd_local, "generate", *arguments], check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
