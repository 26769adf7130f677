"""The JSON objects that only the command prints, by the word in their member `schema`. Those that services answer too
are in `eigentensor.schemas` and `eigentensor_serve.schemas`.

Importing them imports what their members are of: verbs import them where types are checked.
"""
