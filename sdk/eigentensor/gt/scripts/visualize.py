"""`python -m eigentensor.gt.scripts.visualize`."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(["visualize", *sys.argv[1:]])
