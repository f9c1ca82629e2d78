"""A run's report: one self-contained HTML page, the same as Markdown, and as JSON."""
