"""Language models as people have them: their files, architectures and texts → programs that write tokens."""
