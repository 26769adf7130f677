"""A tinygrad function → a program and its weights. The only importer of tinygrad beside the runtime."""
