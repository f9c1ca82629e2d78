"""Runs whose jobs a cluster starts: the seam to clusters, and the engines behind it."""
