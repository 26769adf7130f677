"""Executing what an order names: inputs fetched by their roots, execution confined, a random sample recomputed."""
