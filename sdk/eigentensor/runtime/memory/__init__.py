"""Where results lie, and which calls write over what they read."""
