"""How the documentation site is made: pages that are written, README files that are included, references that are
generated. `scripts/docs` builds it."""
