"""From a body to object code, for any device: the best schedule known, the code's name in the cache, the code."""
