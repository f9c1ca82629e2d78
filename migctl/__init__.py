"""Several deep-learning trainings on one NVIDIA machine, from one plan file."""

__version__ = "0.1.0"
