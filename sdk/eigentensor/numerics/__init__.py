"""The scalar operations, exactly as sdk/README.md specifies them."""
