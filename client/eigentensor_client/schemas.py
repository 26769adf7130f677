"""What the command alone prints with `--json`, beside the objects of `eigentensor.schemas`."""
