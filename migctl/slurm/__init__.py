"""Slurm's programs: what they are asked, and what they answer, of every version from 22.05 on."""
