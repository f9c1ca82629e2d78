"""Texts and JSON of what it is given; pure."""
