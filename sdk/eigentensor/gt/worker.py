"""`python -m eigentensor.gt.worker`: GT's older name of it."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(["worker", *sys.argv[1:]])
