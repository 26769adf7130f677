"""Apps that speak text, asked as OpenAI's clients ask."""
