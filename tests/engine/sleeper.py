"""Stands for the trial of a file that never ends."""

import time

if __name__ == "__main__":
    time.sleep(600)
