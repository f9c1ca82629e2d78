"""The GPU side: what fits where, and what is in the way."""
