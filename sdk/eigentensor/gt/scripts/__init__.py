"""GT's scripts: `python -m eigentensor.gt.scripts.top`, `trace` and `visualize`."""
