"""Stands for the trial of a file that never ends."""

import time

from nsd_local.engine import trial

if __name__ == "__main__":
    trial.try_open = lambda path: time.sleep(600)
    trial.main()
