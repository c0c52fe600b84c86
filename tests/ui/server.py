"""Serves the real app with tiny models, in a process of its own. Ends when its standard input does.

python -m tests.ui.server FOLDER TARGET DRAFT
"""

from __future__ import annotations

import sys
from pathlib import Path

from nsd_local.ui.app import App
from nsd_local.ui.choice import Choice
from nsd_local.ui.launch import serve

from nsd_local.loading import LoadOptions


def main() -> None:
    folder, target, draft = sys.argv[1:4]
    with App(Choice(model=target, draft=draft, options=LoadOptions(ctx=32_768, threads=1)), folder=Path(folder)) as app:
        print(serve(app), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
