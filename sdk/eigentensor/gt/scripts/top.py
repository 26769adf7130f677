"""`python -m eigentensor.gt.scripts.top`."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(["top", *sys.argv[1:]])
