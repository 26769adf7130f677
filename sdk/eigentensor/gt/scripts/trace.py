"""`python -m eigentensor.gt.scripts.trace`."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(["trace", *sys.argv[1:]])
