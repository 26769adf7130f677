"""Bodies as the runtime sees them: what is known of their loops, how they are made anew, their text."""
