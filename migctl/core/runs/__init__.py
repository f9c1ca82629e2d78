"""What is recorded, what is there, what belongs to whom, and which steps remain."""
