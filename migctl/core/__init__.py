"""Pure values and decisions: no clock, file, environment, process or network."""
