"""Every JSON object that more than one part tells, by the word in its member `schema`: what HTTP answers, what the
command prints with `--json`. Types for those who make them, JSON Schema for OpenAPI documents and tests.

Importing them imports pydantic: those who only make them import them where types are checked.
"""
