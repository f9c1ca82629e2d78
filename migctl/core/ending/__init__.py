"""Why a job has ended."""
