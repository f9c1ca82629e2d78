"""This machine: its processors and processes, and what users of migctl share on it."""
