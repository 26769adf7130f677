"""Which worker holds and computes which part of a program's tensors. Nothing here changes a bit or a root."""
