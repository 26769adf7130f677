"""A small language model, from text to tokens to text again: what `language_model.py` is made of."""
