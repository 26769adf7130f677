"""What the project's HTTP interfaces have in common: errors on the wire, limits."""
