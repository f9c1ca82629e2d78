"""The same plan as a cluster takes it."""
