"""Every JSON object that more than one part tells, by the word in its member `schema`: what HTTP answers, what the
command prints with `--json`. Types for those who make them, JSON Schema for OpenAPI documents and tests.

An object that is held as a dataclass is described there (`eigentensor.wire.Object`); these are written by one function.
"""
