"""`python -m eigentensor.gt.server`: GT's older name of it."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(["server", *sys.argv[1:]])
