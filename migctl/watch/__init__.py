"""Seeing what runs: the sampler, what it keeps, and what others are shown of it."""
